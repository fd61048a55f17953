#pragma once

namespace rowgrad {

/// The kind of things that the rows of a table stand for. Only callbacks of training use it.
enum class RowKind { kRow, kToken, kPosition, kDistance, kNgram };

}  // namespace rowgrad
