#pragma once

// Trainable tensors. Layers own parameters; tapes and optimizers borrow them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/autograd/row_source.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

class Parameter;

/// Base of classes that keep addresses of parameters. A parameter's destructor calls forget().
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

/// The deferred steps of an optimizer on the rows of a table, shared by the optimizer and the
/// parameter. The parameter applies the steps to copies of rows that it returns, and to stored rows
/// before others change the rows.
class DeferredUpdates {
 public:
  DeferredUpdates(const DeferredUpdates&) = delete;
  DeferredUpdates& operator=(const DeferredUpdates&) = delete;
  virtual ~DeferredUpdates() = default;

 protected:
  DeferredUpdates() = default;

 private:
  friend class Parameter;

  /// Copies up-to-date rows: out[i] = row ids[i], plus rows of `added` as in gathered_rows(). Ids
  /// may repeat.
  virtual void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) = 0;

  /// Writes up-to-date copies of all rows.
  virtual void gather_all(real* out) = 0;

  /// Brings the stored rows `ids` up to date.
  virtual void apply(std::span<const std::int32_t> ids) = 0;

  /// Brings all stored rows up to date. No steps are deferred afterwards.
  virtual void apply_all() = 0;

  /// Returns true if the optimizer was destroyed.
  virtual bool is_abandoned() const = 0;
};

/// A named tensor with its gradient. Neither copyable nor movable. It must outlive tapes and
/// optimizers, which keep its address. (Optimizers of a destroyed parameter throw.)
///
/// An optimizer may defer the steps of rows without a gradient. All functions except source()
/// return up-to-date values. Steps that are still deferred when the optimizer is destroyed stay
/// with the parameter.
///
/// A large table may be in a table file, which must outlive the parameter. For a table in a file,
/// functions for all values (value, copy, mutable_values, assign) throw std::logic_error.
///
/// Thread safety: several threads may read at the same time. If steps are deferred, one thread must
/// call value() after each change, before the others read. While a thread changes the parameter, no
/// other thread may use it. A table in a file must be used by one thread at a time.
class Parameter {
 public:
  /// Creates a parameter from its value or, for a table, from a row source, which must not be null
  /// (see file_rows() in core/tables). `owner` registers its member: `Parameter weight{*this,
  /// "weight", …}`. Throws std::invalid_argument for a shape that no memory could hold.
  explicit Parameter(std::string name, Tensor value);
  Parameter(std::string name, std::unique_ptr<RowSource> rows);
  Parameter(ParameterOwner& owner, std::string_view name, auto value_or_rows)
      : Parameter(std::string(name), std::move(value_or_rows)) {
    owner.adopt(name, *this);
  }
  ~Parameter();  // notifies its users
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// Returns the dotted name, from the outermost layer on: "token.weight".
  const std::string& name() const { return name_; }
  void rename(const std::string& name) { name_ = name; }

  /// Return the shape, and the number of elements.
  const Shape& shape() const { return source_->shape(); }
  std::size_t size() const { return element_count(shape()); }

  /// Returns all values, up to date. The next change (a step, load or assignment) invalidates the
  /// contents, so call value() again, or copy() before the change. While steps are deferred, the
  /// first call after a change costs a pass over the table.
  const Tensor& value() const {
    if (deferred_ == nullptr) return whole("value");
    if (!is_copied_) copy_whole();
    return up_to_date_;
  }

  /// Returns a copy of all values, up to date.
  Tensor copy() const;

  /// Returns the up-to-date rows `ids` of a table, [ids, width]. The cost does not depend on the
  /// size of the table. Throws std::invalid_argument if an id is out of range.
  Tensor rows(std::span<const std::int32_t> ids) const;

  /// Works like rows(), without checking ids. Adds the rows of `added`, if given, cyclically.
  /// Requires: these rows have the table's width, and their number divides the number of ids.
  Tensor gathered_rows(std::span<const std::int32_t> ids, const Tensor* added = nullptr) const;

  /// Starts to read the rows `ids` of a table in a file, without waiting for the rows. Throws
  /// std::invalid_argument if an id is out of range.
  void prefetch(std::span<const std::int32_t> ids) const;

  /// Returns the values for changing in place, valid until the next change. Counts as a change:
  /// backward() throws on a tape that has read the whole value before.
  std::span<real> mutable_values();

  /// Replaces the value. Throws std::invalid_argument if the shape differs.
  void assign(Tensor value);

  /// Replaces the rows `ids` of a table with `values` [ids, width]. Throws std::invalid_argument if
  /// ids are out of range or not strictly increasing, or if the shapes differ.
  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values);

  /// Returns the parameter's entry of a state dict: all values, or the id of a table file's
  /// checkpoint. Throws std::logic_error if rows in a file have deferred steps of an optimizer that
  /// was destroyed before its state was saved.
  StateDict::Value saved() const;

  /// Throws std::invalid_argument if entry `name` is missing or of another shape, or if the table
  /// file cannot be restored to it.
  void check_saved(const StateDict& state, const std::string& name) const;

  /// Loads an entry that check_saved() has accepted. Throws only if the disk fails. Requires:
  /// optimizers load their state from the same checkpoint.
  void load(const StateDict& state, const std::string& name);

  /// Returns the number of changes of the value so far.
  std::uint64_t version() const { return version_; }

  /// Returns the sum of the gradients added since zero_gradient().
  const Gradient& gradient() const { return gradient_; }
  void zero_gradient() { gradient_ = Gradient(); }

  /// Adds to the gradient. Throws std::invalid_argument if the shapes differ, and std::logic_error
  /// if no optimizer can apply gradients to the rows.
  void add_gradient(Gradient gradient);

  /// Returns the elements of the gradient (see Gradient::values()), for changing in place.
  std::span<real> mutable_gradient_values() { return gradient_.values(); }

  /// Returns true if backward computes a gradient and optimizers train the parameter.
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // --- For optimizers ----------------------------------------------------------------------------

  /// Returns the stored values. Rows may be stale.
  RowSource& source() { return *source_; }

  /// Returns true if one tensor in memory holds all values. Otherwise, check_in_memory() throws
  /// std::invalid_argument with a message that begins with `reason`.
  bool is_in_memory() const { return source_->dense() != nullptr; }
  void check_in_memory(const auto&... reason) const {
    if (!is_in_memory()) throw_not_in_memory(concat(reason...));
  }

  /// Returns the deferred steps, or null.
  const DeferredUpdates* deferred() const { return deferred_.get(); }

  /// Replaces the deferred steps. Applies the deferred steps of another optimizer first.
  void set_deferred(std::shared_ptr<DeferredUpdates> updates);

  /// Apply or discard the deferred steps.
  void apply_deferred();
  void discard_deferred();

  /// Counts a change. Call it after the stored rows have changed.
  void increment_version();

  /// Register or remove a user to notify when the parameter is destroyed.
  void add_user(ParameterUser& user) { users_.push_back(&user); }
  void remove_user(const ParameterUser& user) noexcept { std::erase(users_, &user); }

 private:
  Tensor& whole(const char* function) const;
  [[noreturn]] void throw_not_in_memory(const std::string& reason) const;
  void copy_whole() const;
  void end_deferred();
  void check_rows(std::span<const std::int32_t> ids) const;

  std::string name_;
  std::unique_ptr<RowSource> source_;
  Gradient gradient_;
  std::uint64_t version_ = 0;
  std::shared_ptr<DeferredUpdates> deferred_;  // destroyed before source_ and name_, which it uses
  mutable Tensor up_to_date_ = empty({0});     // copy of all values while steps are deferred
  mutable bool is_copied_ = false;             // true if up_to_date_ is current
  bool trainable_ = true;
  std::vector<ParameterUser*> users_;
};

}  // namespace rowgrad
