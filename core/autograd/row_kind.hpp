#pragma once

namespace rowgrad {

/// What the rows of a table stand for. Only observers of training use it.
enum class RowKind { kRow, kToken, kPosition, kDistance, kNgram };

}  // namespace rowgrad
