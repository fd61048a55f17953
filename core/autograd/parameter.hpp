#pragma once

// Trainable tensors. Layers own parameters; tapes and optimizers borrow them.

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
#include <rowgrad/core/autograd/table_file.hpp>

namespace rowgrad {

class Parameter;

/// Base of classes that keep addresses of parameters: notified before a parameter is destroyed.
class ParameterUser {
 protected:
  ParameterUser() = default;
  ~ParameterUser() = default;

 private:
  friend class Parameter;
  virtual void forget(const Parameter& parameter) noexcept = 0;
};

/// The owner of a parameter, usually a layer, which gives the parameter its full name.
class ParameterOwner : public ParameterUser {
 private:
  friend class Parameter;
  virtual void adopt(std::string_view name, Parameter& parameter) = 0;
};

/// A named value with its gradient. Neither copyable nor movable: tapes and optimizers keep its
/// address, so it must outlive them. (An optimizer throws once one of its parameters is gone.)
///
/// An optimizer may postpone updates of rows that nothing reads. It then holds the values itself
/// (see lend), and every function here that reads them returns them up to date. Only a tensor that
/// value() returned earlier may have older values.
///
/// The values of a large table may be in a file, which must outlive the parameter. Then all
/// functions for rows work, and those that need all values at once (value, copy, mutable_values,
/// assign) throw std::logic_error: nothing passes over such a table as a whole.
///
/// Threads: several may read at the same time, unless the parameter is lent and value() has not
/// been called since its last change. While one thread changes it, no other may use it. A table in
/// a file is used by one thread at a time.
class Parameter {
 public:
  /// Throws std::invalid_argument for a shape with more values than memory could hold.
  explicit Parameter(std::string name, Tensor value);

  /// The same as a member of `owner`, which registers it: `Parameter weight{*this, "weight", …}`.
  Parameter(ParameterOwner& owner, std::string_view name, Tensor value);

  /// A table whose rows are in a file. Throws std::invalid_argument if another parameter has it.
  Parameter(std::string name, TableFile& file);
  Parameter(ParameterOwner& owner, std::string_view name, TableFile& file);
  ~Parameter();
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// The dotted name, starting at the outermost layer: "token.weight".
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  const Shape& shape() const { return shape_; }
  std::size_t size() const { return element_count(shape_); }

  /// The file that has the values, or null if they are in memory.
  TableFile* file() const { return file_; }

  /// All values, up to date until the next change. The tensor lives as long as the parameter. While
  /// an optimizer postpones updates, it is a copy of the table that the optimizer's next steps do
  /// not change: call value() again after a step.
  const Tensor& value() const {
    if (!whole_) read_whole();
    if (!given_out_.load(std::memory_order_relaxed))
      given_out_.store(true, std::memory_order_relaxed);
    return value_;
  }

  /// The same as a tensor of the caller's own.
  Tensor copy() const;

  /// The rows `ids` of a table [rows, width], up to date: → [ids, width]. The cost does not depend
  /// on the size of the table. Throws std::invalid_argument for an id outside the table.
  Tensor rows(std::span<const std::int32_t> ids) const;

  /// For ops, which have checked the ids: the same, plus the rows of `added`, if given, which are
  /// added cyclically. Their width must be that of the table, and their number divide that of ids.
  Tensor checked_rows(std::span<const std::int32_t> ids, const Tensor* added = nullptr) const;

  /// The values, for changing in place. Counts as a change: a tape that has read the parameter
  /// before refuses to go backward, since its gradients would belong to other values. Do not keep
  /// the span: an optimizer's next step may move the values.
  std::span<real> mutable_values();

  /// Replaces the value. Throws std::invalid_argument if the shape differs.
  void assign(Tensor value);

  /// Replaces the rows `ids` of a table with `values` [ids, width]. Throws std::invalid_argument
  /// for ids outside the table or not strictly increasing, and for values of another shape.
  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values);

  /// Takes a table in a file back to a checkpoint (see TableFile::restore). Optimizers have to load
  /// the state of that time.
  void restore(std::string_view mark);

  /// How many times the value has changed.
  std::uint64_t version() const { return version_; }

  /// The sum of the gradients that tapes have added since zero_gradient().
  const Gradient& gradient() const { return gradient_; }
  void zero_gradient() { gradient_ = Gradient(); }

  /// Adds to the gradient. Throws std::invalid_argument if the shapes differ.
  void add_gradient(Gradient gradient);

  /// add_gradient() in two steps; see Gradient::prepare_sum.
  void prepare_gradient(Gradient& gradient) const;
  void add_prepared_gradient(Gradient&& prepared) noexcept {
    gradient_.add_prepared(std::move(prepared));
  }

  /// The values of the gradient, of the tensor or of the rows, for changing in place.
  std::span<real> mutable_gradient_values() { return gradient_.values(); }

  /// Whether backward computes a gradient for it and optimizers change it.
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  /// For optimizers: hands the values over to a keeper, which brings rows up to date when they are
  /// read. They are returned, up to date, by reclaim(), before all values change, and before
  /// another keeper takes over. If references from value() may still be in use, the values also
  /// stay here and the keeper gets the copy that copy_to_lend() made; lend() itself cannot fail. A
  /// keeper that already has the values may always pass them as `copy`. Values in a file stay
  /// there, and reclaim() brings no rows up to date: they are read again when a keeper has loaded
  /// the state of this one.
  std::optional<Tensor> copy_to_lend() const {
    return given_out_ ? std::optional(value()) : std::nullopt;
  }
  Tensor lend(LazyRows& keeper, std::optional<Tensor> copy);
  void reclaim();

  /// For the keeper: records that it changed rows. Throws std::logic_error for any other keeper.
  void note_change(const LazyRows& keeper);

  /// Registers or removes a user to notify when the parameter is destroyed.
  void add_user(ParameterUser& user) { users_.push_back(&user); }
  void remove_user(const ParameterUser& user) noexcept { std::erase(users_, &user); }

 private:
  void read_whole() const;
  void check_in_memory(const char* function) const;
  void check_not_owed() const;
  void read_file(std::span<const std::int32_t> ids, real* out) const;
  void check_rows(std::span<const std::int32_t> ids) const;

  std::string name_;
  mutable Tensor value_;  // while lent, empty until it is read as a whole
  Shape shape_;
  Gradient gradient_{&name_};
  std::uint64_t version_ = 0;
  TableFile* file_ = nullptr;
  TableFile::Lease lease_;
  LazyRows* keeper_ = nullptr;
  mutable bool whole_ = true;  // whether value_ is up to date; never for a file
  // Whether value() was called, so that references to value_ may still be in use.
  mutable std::atomic<bool> given_out_ = false;
  bool trainable_ = true;
  std::vector<ParameterUser*> users_;
};

}  // namespace rowgrad
