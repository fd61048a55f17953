#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

class Parameter;
class Tape;
struct TapeSlot;

/// A value on a tape: a handle (tape, index), whose copies refer to the same value. Members
/// throw std::logic_error if the tape was destroyed or the variable is default-constructed.
class Variable {
 public:
  Variable() = default;

  /// Returns the value, valid until the tape is destroyed or backward() releases it. A parameter's
  /// value is valid until the parameter changes.
  const Tensor& value() const;
  /// Returns the value for an op. If the value is a parameter's, the tape records that all of it
  /// was read, and backward() throws if the parameter has changed since.
  const Tensor& read() const;
  const Shape& shape() const;

  /// Returns the name of the op or parameter, "input" or "constant".
  std::string name() const;

  /// Returns the parameter whose value this is, or null. An op that needs only some rows of a table
  /// calls read_rows() (core/ops/embedding.hpp), as read() reads all rows.
  Parameter* parameter() const;

  /// Returns the only element. Throws std::invalid_argument if there is not exactly one.
  real item() const;

  /// Returns true if backward computes the variable's gradient.
  bool needs_gradient() const;

  Tape& tape() const;  // the tape that recorded the value

 private:
  friend Tape;
  Variable(const TapeSlot* slot, std::uint32_t index);

  const TapeSlot* slot_ = nullptr;
  std::uint64_t serial_ = 0;
  std::uint32_t index_ = 0;
};

/// Prints name, shape and value: `add [2] { 1.5, -2.5 }`. Prints the reason instead of the value if
/// the value was released by backward() or is in a file.
std::ostream& operator<<(std::ostream& stream, const Variable& variable);

}  // namespace rowgrad
