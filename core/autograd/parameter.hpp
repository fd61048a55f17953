#pragma once

// A tensor that training changes. Layers own parameters; tapes and optimizers borrow them.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/autograd/lazy_rows.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {

/// A named value with its gradient. Neither copied nor moved: tapes and optimizers keep its
/// address, so it must outlive them.
///
/// An optimizer may postpone updates of rows that nobody looks at. It then keeps the numbers itself
/// (lend), and every way to read them here gives them up to date; a parameter that is lent holds no
/// number that could be read too early.
///
/// Threads: several may read at once, unless the parameter is lent and value() has not been called
/// since its last change; nobody else may use it while one thread changes it.
class Parameter {
 public:
  explicit Parameter(std::string name, Tensor value)
      : name_(std::move(name)), value_(std::move(value)), shape_(value_.shape()) {}
  ~Parameter();
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// The dotted name from the outermost layer that holds it: "token.weight".
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  const Shape& shape() const { return shape_; }
  std::size_t size() const { return element_count(shape_); }

  /// All numbers, up to date. The tensor stays valid until the next change. If rows were owed
  /// updates, it is a copy of the table, and an optimizer's next step leaves it empty: call value()
  /// again.
  const Tensor& value() const {
    if (keeper_ != nullptr && !whole_) read_whole();
    return value_;
  }

  /// Some rows of a table [rows, width], up to date: → [ids, width]. Its cost does not depend on
  /// the table's size. Throws std::invalid_argument for an id outside it.
  Tensor rows(std::span<const std::int32_t> ids) const;

  /// The numbers, to be changed in place. Counts as a change: a tape that read the parameter before
  /// refuses to go backward, since its gradients would be those of other numbers. Use the span at
  /// once: an optimizer's next step may take the numbers elsewhere.
  std::span<real> numbers();

  /// Replaces the value. Throws std::invalid_argument if the shape differs.
  void assign(Tensor value);

  /// Replaces some rows of a table, by values [ids, width]. Throws std::invalid_argument for ids
  /// outside the table or not strictly rising, and for another shape of the values.
  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values);

  /// How often the value was changed.
  std::uint64_t version() const { return version_; }

  /// What tapes have added up since zero_gradient().
  const Gradient& gradient() const { return gradient_; }
  void zero_gradient() { gradient_ = Gradient(); }

  /// Adds to the gradient. Throws std::invalid_argument if the shapes differ.
  void add_gradient(Gradient gradient);

  /// The numbers that the gradient holds, of the whole or of its rows, to be changed in place.
  std::span<real> gradient_numbers() { return gradient_.numbers(); }

  /// Whether backward computes a gradient for it and optimizers change it.
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  /// For optimizers: hands the numbers over to a keeper that brings rows up to date when they are
  /// read. They come back, up to date, when the keeper is released: by whatever needs to change
  /// them all, by another keeper, by reclaim().
  Tensor lend(LazyRows& keeper);
  void reclaim();

  /// For the keeper: it has changed rows. Throws std::logic_error if it is not the keeper.
  void note_change(const LazyRows& keeper);

  /// Copies rows to out, others added on the way; the caller has checked the ids.
  void gather_rows(std::span<const std::int32_t> ids, real* out,
                   const kernels::AddedRows& added = {}) const;

 private:
  void read_whole() const;
  void check_rows(const char* caller, std::span<const std::int32_t> ids) const;

  std::string name_;
  mutable Tensor value_;  // of size 0 while lent, until someone reads the whole
  Shape shape_;
  Gradient gradient_;
  std::uint64_t version_ = 0;
  LazyRows* keeper_ = nullptr;
  mutable bool whole_ = true;  // value_ is up to date
  bool trainable_ = true;
};

}  // namespace rowgrad
