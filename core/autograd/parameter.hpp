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

/// Updates of a table's rows that an optimizer has deferred: the steps that stale rows still have
/// to make. The parameter shares them with the optimizer: it asks for them when its rows are read,
/// and has them applied before somebody else changes the rows.
class DeferredUpdates {
 public:
  DeferredUpdates(const DeferredUpdates&) = delete;
  DeferredUpdates& operator=(const DeferredUpdates&) = delete;
  virtual ~DeferredUpdates() = default;

 protected:
  DeferredUpdates() = default;

 private:
  friend class Parameter;

  /// Copies rows, up to date: out[i] = row ids[i], plus row i of `added` as in gathered_rows(). Ids
  /// may repeat.
  virtual void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) = 0;

  /// Copies all rows, up to date.
  virtual void gather_all(real* out) = 0;

  /// Brings the stored rows `ids` up to date.
  virtual void apply(std::span<const std::int32_t> ids) = 0;

  /// Brings all stored rows up to date; then no updates are deferred any more.
  virtual void apply_all() = 0;

  /// Returns true if their optimizer was destroyed, so that only the parameter has them.
  virtual bool is_abandoned() const = 0;
};

/// A named value with its gradient. Neither copyable nor movable: tapes and optimizers keep its
/// address, so it must outlive them. (An optimizer throws once one of its parameters is gone.)
///
/// An optimizer may defer updates of rows that nothing reads. All functions here return values that
/// are up to date. Updates that are still deferred when their optimizer is destroyed stay with the
/// parameter.
///
/// The values of a large table may be in a file, which must outlive the parameter. Then all
/// functions for rows work, and those that need all values at once (value, copy, mutable_values,
/// assign) throw std::logic_error: nothing passes over such a table as a whole.
///
/// Threads: several may read at the same time, unless updates are deferred and value() has not been
/// called since the last change, whether or not their optimizer still exists. While one thread
/// changes it, no other may use it. A table in a file is used by one thread at a time.
class Parameter {
 public:
  /// A value, or a table whose rows are elsewhere, which must not be null: see file_rows() in
  /// core/tables. A member of `owner` is registered by it: `Parameter weight{*this, "weight", …}`.
  /// Throws std::invalid_argument for a shape with more values than memory could hold.
  explicit Parameter(std::string name, Tensor value);
  Parameter(std::string name, std::unique_ptr<RowSource> rows);
  Parameter(ParameterOwner& owner, std::string_view name, auto value_or_rows)
      : Parameter(std::string(name), std::move(value_or_rows)) {
    owner.adopt(name, *this);
  }
  ~Parameter();  // first tells its users: layers, and optimizers, which throw from then on
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// The dotted name, starting at the outermost layer: "token.weight".
  const std::string& name() const { return name_; }
  void rename(const std::string& name) { name_ = name; }

  /// The shape of the value, and how many numbers it has.
  const Shape& shape() const { return source_->shape(); }
  std::size_t size() const { return element_count(shape()); }

  /// All values. They are up to date until the parameter changes next (a step, a load, an
  /// assignment), which may leave older values, newer ones or none in the tensor: call value()
  /// again then, or copy() before. While updates are deferred, the first call after a change costs
  /// a pass over the table.
  const Tensor& value() const {
    if (deferred_ == nullptr) return whole("value");
    if (!is_copied_) copy_whole();
    return up_to_date_;
  }

  /// A copy of all values, up to date.
  Tensor copy() const;

  /// The rows `ids` of a table [rows, width], up to date: → [ids, width]. The cost does not depend
  /// on the size of the table. Throws std::invalid_argument for an id outside the table.
  Tensor rows(std::span<const std::int32_t> ids) const;

  /// rows() for ops, which have checked the ids. The rows of `added`, if given, are added
  /// cyclically: their width must be that of the table, and their number divide that of ids.
  Tensor gathered_rows(std::span<const std::int32_t> ids, const Tensor* added = nullptr) const;

  /// Begins to read the rows `ids` of a table in a file from the disk, and returns at once: for
  /// rows that will be needed soon, while something else is computed. Throws std::invalid_argument
  /// for an id outside the table.
  void prefetch(std::span<const std::int32_t> ids) const;

  /// The values, for changing in place. Counts as a change: a tape that has read the whole value
  /// before refuses to go backward, since its gradients would belong to other values. Valid until
  /// the next change, as value() is.
  std::span<real> mutable_values();

  /// Replaces the value. Throws std::invalid_argument if the shape differs.
  void assign(Tensor value);

  /// Replaces the rows `ids` of a table with `values` [ids, width]. Throws std::invalid_argument
  /// for ids outside the table or not strictly increasing, and for values of another shape.
  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values);

  /// Returns what a checkpoint stores: all values, or the id of a file's checkpoint. Throws
  /// std::logic_error if rows in a file have deferred updates of an optimizer that was destroyed
  /// before its state was saved.
  StateDict::Value saved() const;

  /// Throws std::invalid_argument for a value that is missing or of another shape, and for a
  /// checkpoint that the file cannot go back to.
  void check_saved(const StateDict& state, const std::string& name) const;

  /// Loads a value that check_saved() accepts. Only the disk can fail. Requires: optimizers load
  /// the state of the same time.
  void load(const StateDict& state, const std::string& name);

  /// How many times the value has changed.
  std::uint64_t version() const { return version_; }

  /// The sum of the gradients that tapes have added since zero_gradient().
  const Gradient& gradient() const { return gradient_; }
  void zero_gradient() { gradient_ = Gradient(); }

  /// Adds to the gradient. Throws std::invalid_argument if the shapes differ.
  void add_gradient(Gradient gradient);

  /// The values of the gradient, of the tensor or of the rows, for changing in place.
  std::span<real> mutable_gradient_values() { return gradient_.values(); }

  /// Whether backward computes a gradient for it and optimizers change it.
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // --- For optimizers ----------------------------------------------------------------------------

  /// The values as they are stored: rows may be stale.
  RowSource& source() { return *source_; }

  /// Returns true if there is a tensor with all values, over which loops may pass.
  /// check_in_memory() throws std::invalid_argument if not; the message begins with `reason`.
  bool is_in_memory() const { return source_->dense() != nullptr; }
  void check_in_memory(const auto&... reason) const {
    if (!is_in_memory()) refuse_pass(concat(reason...));
  }

  /// The updates that are deferred; null if there are none.
  const DeferredUpdates* deferred() const { return deferred_.get(); }

  /// Replaces the updates that are deferred. Those of another optimizer are applied before.
  void set_deferred(std::shared_ptr<DeferredUpdates> updates);

  /// Applies the updates that are deferred, or drops them.
  void apply_deferred();
  void discard_deferred();

  /// Notes that the stored rows have changed.
  void increment_version();

  /// Registers or removes a user to notify when the parameter is destroyed.
  void add_user(ParameterUser& user) { users_.push_back(&user); }
  void remove_user(const ParameterUser& user) noexcept { std::erase(users_, &user); }

 private:
  Tensor& whole(const char* function) const;
  [[noreturn]] void refuse_pass(const std::string& reason) const;
  void copy_whole() const;
  void end_deferred();
  void check_rows(std::span<const std::int32_t> ids) const;

  std::string name_;
  std::unique_ptr<RowSource> source_;
  Gradient gradient_;
  std::uint64_t version_ = 0;
  std::shared_ptr<DeferredUpdates> deferred_;  // destroyed before source_ and name_, which it uses
  mutable Tensor up_to_date_ = empty({0});     // a copy of all values while updates are deferred
  mutable bool is_copied_ = false;             // whether it is of the last change
  bool trainable_ = true;
  std::vector<ParameterUser*> users_;
};

}  // namespace rowgrad
