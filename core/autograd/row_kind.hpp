#pragma once

namespace rowgrad {

/// The kind of object that a row of a table represents. Only callbacks of a training run use it.
enum class RowKind { kRow, kToken, kPosition, kDistance, kNgram };

}  // namespace rowgrad
