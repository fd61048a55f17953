#pragma once

#include <cstdint>
#include <string_view>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

class Tape;
struct TapeSlot;

/// A value on a tape: a small handle (tape, index). Copying one copies no numbers. Every member
/// throws std::logic_error if the tape has been destroyed or the handle never had one.
class Variable {
 public:
  Variable() = default;

  /// Valid as long as the tape; that of a parameter until the parameter changes.
  const Tensor& value() const;
  const Shape& shape() const;

  /// Some rows of a table [rows, width]: ids of any shape → their shape + [width]. What it costs
  /// does not depend on the table's size, for a parameter that is owed updates neither. With
  /// `added`, whose shape ends that of the result, that is added to them, repeated over the leading
  /// axes. Throws std::invalid_argument naming `op` for what is no table, for the first id outside
  /// it, and for another shape of `added`: an op that looks rows up need not check that itself.
  Tensor rows(const Ids& ids, const Tensor* added = nullptr,
              std::string_view op = "Variable::rows") const;

  /// The number of a value that has just one. Throws std::invalid_argument for any other.
  real item() const;

  /// Whether backward would compute its gradient.
  bool needs_gradient() const;

  Tape& tape() const;

 private:
  friend Tape;
  Variable(const TapeSlot* slot, std::uint64_t serial, std::uint32_t index)
      : slot_(slot), serial_(serial), index_(index) {}

  const TapeSlot* slot_ = nullptr;
  std::uint64_t serial_ = 0;
  std::uint32_t index_ = 0;
};

}  // namespace rowgrad
