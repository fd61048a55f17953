#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

class Parameter;
class Tape;
struct TapeSlot;

/// A value on a tape: a small handle (tape, index), whose copies refer to the same value. Every
/// member throws std::logic_error if the tape has been destroyed or the handle never had one.
class Variable {
 public:
  Variable() = default;

  /// Returns the value, and records nothing. It is valid as long as the tape; the value of a
  /// parameter, only until the parameter changes.
  const Tensor& value() const;
  /// Returns the value for an op, and records that all of it was read: backward() throws if it is
  /// the value of a parameter that has changed since.
  const Tensor& read() const;
  const Shape& shape() const;

  /// What it is: the op that made it, a parameter's name, "input" or "constant".
  std::string name() const;

  /// The parameter whose value this is, otherwise null. An op that needs only some rows of a table
  /// calls read_rows() (core/ops/embedding.hpp): read() brings all rows up to date.
  Parameter* parameter() const;

  /// value() as a scalar. Throws std::invalid_argument unless it has exactly one element.
  real item() const;

  /// Whether backward computes its gradient.
  bool needs_gradient() const;

  Tape& tape() const;  // the tape that has the value

 private:
  friend Tape;
  Variable(const TapeSlot* slot, std::uint32_t index);

  const TapeSlot* slot_ = nullptr;
  std::uint64_t serial_ = 0;
  std::uint32_t index_ = 0;
};

/// Prints what the variable is, its shape and its value: `add [2] [1.5, -2]`. If the value was
/// released by backward() or is in a file, prints why it is missing.
std::ostream& operator<<(std::ostream& stream, const Variable& variable);

}  // namespace rowgrad
