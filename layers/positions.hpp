#pragma once

// Positions that are added to the tokens, learned or fixed, and the kinds there are. Sizes of 0 or
// more than memory could hold, numbers that are not finite, and texts that are longer than the
// table or of another width throw std::invalid_argument.

#include <cstddef>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/layer.hpp>

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

struct PositionalEmbeddingOptions {
  double deviation = 1;         // of the normal distribution that the table is drawn from
  bool dense_gradient = false;  // whether the gradient is that of the whole table
};

/// Learned positions (Gehring et al. 2017; GPT-2): x [..., length, width] → x + the first `length`
/// rows of a trained table. Only these rows get a gradient. Parameter: weight [context, width].
class PositionalEmbedding : public Layer {
 public:
  /// Initialised from normal(0, deviation). Throws std::invalid_argument for a context or width of
  /// 0, for more values than memory could hold, and for a deviation that is negative or not finite.
  PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                      const PositionalEmbeddingOptions& options = {});

  /// Throws std::invalid_argument for x longer than the context or of another width.
  Variable forward(const Variable& x);

  /// `length` rows [length, width] from a position on, which Embedding::forward can add during the
  /// lookup. Throws std::invalid_argument for a position that is not below the context.
  Variable rows(Tape& tape, std::size_t length, std::size_t first_position = 0);

  Parameter weight;

 private:
  PositionalEmbeddingOptions options_;
};

/// The length of x, for both positional layers. Throws std::invalid_argument naming `layer` and
/// both shapes unless `shape` is [..., length, width].
std::size_t length_of(const char* layer, const Shape& shape, std::size_t width);

/// Throws std::invalid_argument naming `layer`, the length and the limit if the length is above it.
void check_length(const char* layer, std::size_t first_position, std::size_t length,
                  const char* limit_name, std::size_t limit);

/// The angle of column j at position t; columns 2i are sines and columns 2i + 1 cosines.
enum class FrequencyScheme {
  kPaired,            // t / base^(2i / width): one angle per pair (Vaswani et al. 2017, sec. 3.5)
  kFormalAlgorithms,  // t / base^(2(i + 1) / width) (Phuong & Hutter 2022, algorithm 2)
  kPerColumn,         // t / base^(j / width): one angle per column, as in code beside that formula
};

enum class SinusoidLayout {
  kInterleaved,  // sin cos sin cos …
  kHalves,       // the sines, then the cosines (tensor2tensor)
};

struct SinusoidalOptions {
  double base = 10000;
  FrequencyScheme scheme = FrequencyScheme::kPaired;
  SinusoidLayout layout = SinusoidLayout::kInterleaved;
  double first_position = 0;  // t of the first row; 1 if positions count from one
};

/// Fixed positions: x [..., length, width] → x + the first `length` rows of a table of sinusoids.
/// With an odd width, the last column is a sine in both layouts. Buffer: table [max_length, width],
/// saved with the model and never trained.
class Sinusoidal : public Layer {
 public:
  /// Throws std::invalid_argument for a max_length or width of 0, more values than memory could
  /// hold, a base that is not finite and above 0, and a first_position that is not finite.
  Sinusoidal(std::size_t max_length, std::size_t width, const SinusoidalOptions& options = {});

  /// Throws std::invalid_argument for x longer than max_length or of another width.
  Variable forward(const Variable& x);

  /// As PositionalEmbedding::rows.
  Variable rows(Tape& tape, std::size_t length, std::size_t first_position = 0);

  Buffer table;
};

}  // namespace rowgrad
