#pragma once

#include <optional>

#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/rotary.hpp>

namespace rowgrad {

/// How a model tells positions apart.
enum class Positions {
  kNone,
  // Added to the tokens:
  kLearned,     // a trained table: PositionalEmbedding
  kSinusoidal,  // a fixed table: Sinusoidal
  // In attention, by the distance from query to key:
  kRotary,  // queries and keys are rotated (Su et al. 2021, "RoPE"): rotary()
  kAlibi,   // a slope per head (Press et al. 2022): alibi_bias()
  kT5,      // a trained bias per bucket of distances and head (Raffel et al. 2020): t5_bias()
  kShaw,    // trained rows added to keys and values (Shaw et al. 2018): relative_rows()
};

/// What the attention layers of a model share about positions: prepared once per forward pass.
struct AttentionPositions {
  /// Rotates queries and keys; null for none.
  const RotaryTable* rotary = nullptr;
  /// [heads, distances], added to the scores.
  std::optional<Variable> distance_bias = std::nullopt;
  /// Added to keys and values.
  std::optional<RelativeRows> relative = std::nullopt;
};

}  // namespace rowgrad
