#pragma once

namespace rowgrad {

/// The kind of object that a row of a table represents. Only training callbacks use it.
enum class RowKind { kRow, kToken, kPosition, kDistance, kNgram };

}  // namespace rowgrad
