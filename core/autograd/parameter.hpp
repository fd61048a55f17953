#pragma once

// A tensor that training changes. Layers own parameters; tapes and optimizers borrow them.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/autograd/lazy_rows.hpp>

namespace rowgrad {

class Parameter;

/// Who keeps the address of parameters, and is told before one of them is destroyed.
class ParameterUser {
 protected:
  ParameterUser() = default;
  ~ParameterUser() = default;

 private:
  friend class Parameter;
  virtual void forget(const Parameter& parameter) noexcept = 0;
};

/// What a parameter is part of, as a rule a layer: it gives the parameter its full name.
class ParameterOwner : public ParameterUser {
 private:
  friend class Parameter;
  virtual void adopt(std::string_view name, Parameter& parameter) = 0;
};

/// A named value with its gradient. Neither copied nor moved: tapes and optimizers keep its
/// address, so it must outlive them. (An optimizer whose parameter is gone refuses to go on.)
///
/// An optimizer may postpone updates of rows that nobody looks at. It then keeps the numbers itself
/// (lend), and every way to read them here gives them up to date. Only a tensor that value() gave
/// out before keeps the numbers it had.
///
/// Threads: several may read at once, unless the parameter is lent and value() has not been called
/// since its last change; nobody else may use it while one thread changes it.
class Parameter {
 public:
  /// Throws std::invalid_argument for a shape of more numbers than memory could hold.
  explicit Parameter(std::string name, Tensor value);

  /// The same as a member of its owner, which learns of it: `Parameter weight{*this, "weight", …}`.
  Parameter(ParameterOwner& owner, std::string_view name, Tensor value);
  ~Parameter();
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// The dotted name from the outermost layer that holds it: "token.weight".
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  const Shape& shape() const { return shape_; }
  std::size_t size() const { return element_count(shape_); }

  /// All numbers, up to date until the next change. The tensor lives as long as the parameter. If
  /// rows are owed updates, it is a copy of the table, which an optimizer's next steps leave as it
  /// is, with the numbers of this moment: call value() again for those that came after.
  const Tensor& value() const {
    if (keeper_ != nullptr && !whole_) read_whole();
    if (!given_out_.load(std::memory_order_relaxed))
      given_out_.store(true, std::memory_order_relaxed);
    return value_;
  }

  /// The same as a tensor of the caller's own.
  Tensor copy() const;

  /// Some rows of a table [rows, width], up to date: → [ids, width]. Its cost does not depend on
  /// the table's size. With `added`, any number of rows of that width that divides the ids', those
  /// are added to them in turn. Throws std::invalid_argument for an id outside the table and for
  /// another number of rows.
  Tensor rows(std::span<const std::int32_t> ids, const Tensor* added = nullptr) const;

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

  /// The same in two parts, as Gradient has them.
  void prepare_gradient(Gradient& gradient) const;
  void add_prepared_gradient(Gradient&& prepared) noexcept {
    gradient_.add_prepared(std::move(prepared));
  }

  /// The numbers that the gradient holds, of the whole or of its rows, to be changed in place.
  std::span<real> gradient_numbers() { return gradient_.numbers(); }

  /// Whether backward computes a gradient for it and optimizers change it.
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  /// For optimizers: hands the numbers over to a keeper that brings rows up to date when they are
  /// read. They come back, up to date, when the keeper is released: by whatever needs to change
  /// them all, by another keeper, by reclaim(). If somebody may hold on to value(), the numbers
  /// stay too and the keeper gets the copy that copy_to_lend() made; lending itself cannot fail. A
  /// keeper that has the numbers may give them as `copy` in any case.
  std::optional<Tensor> copy_to_lend() const {
    return given_out_ ? std::optional(value()) : std::nullopt;
  }
  Tensor lend(LazyRows& keeper, std::optional<Tensor> copy);
  void reclaim();

  /// For the keeper: it has changed rows. Throws std::logic_error if it is not the keeper.
  void note_change(const LazyRows& keeper);

  /// For who keeps its address: to be told of its end, and no longer.
  void add_user(ParameterUser& user) { users_.push_back(&user); }
  void remove_user(const ParameterUser& user) noexcept { std::erase(users_, &user); }

 private:
  void read_whole() const;
  void check_rows(const char* caller, std::span<const std::int32_t> ids) const;

  std::string name_;
  mutable Tensor value_;  // while lent, of size 0 until somebody has read the whole
  Shape shape_;
  Gradient gradient_;
  std::uint64_t version_ = 0;
  LazyRows* keeper_ = nullptr;
  mutable bool whole_ = true;  // value_ is up to date
  // value() was called: somebody may still refer to it.
  mutable std::atomic<bool> given_out_ = false;
  bool trainable_ = true;
  std::vector<ParameterUser*> users_;
};

}  // namespace rowgrad
