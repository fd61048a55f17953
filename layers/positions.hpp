#pragma once

// Position encodings: the available kinds, and layers that add positions to tokens. Sizes that are
// 0 or too large for memory, options that are not finite, and inputs that are longer than the table
// or of another width throw std::invalid_argument.

#include <cstddef>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// The way a model encodes positions.
enum class Positions {
  kNone,  // no position encoding
  // Added to token embeddings:
  kLearned,     // a trained table: PositionalEmbedding
  kSinusoidal,  // a fixed table: Sinusoidal
  // In attention, by the distance from query to key:
  kRotary,  // queries and keys are rotated (Su et al. 2021, "RoPE"): rotary()
  kAlibi,   // a slope per head (Press et al. 2022): alibi_bias()
  kT5,      // a trained bias per head and distance bucket (Raffel et al. 2020): t5_bias()
  kShaw,    // trained rows added to keys and values (Shaw et al. 2018): relative_rows()
};

/// Learned positions (Gehring et al. 2017; GPT-2): x [..., length, width] → x + the first `length`
/// rows of a trained table. Only these rows get a gradient. Parameter: weight [context, width].
class PositionalEmbedding : public EmbeddingTable {
 public:
  /// Draws the table from normal(0, init_std).
  PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                      const EmbeddingOptions& options = {})
      : EmbeddingTable("PositionalEmbedding", context, width, random, of_positions(options)) {}

  Variable forward(const Variable& x);  // x [..., length, width] → the same shape

  /// Returns `length` rows [length, width], from `first_position` on. Embedding::forward can add
  /// them during the lookup.
  Variable rows(Tape& tape, std::size_t length, std::size_t first_position = 0);

 private:
  static EmbeddingOptions of_positions(EmbeddingOptions options) {
    options.kind = RowKind::kPosition;
    return options;
  }
};

/// The angle at position t of column j, in pair i = ⌊j / 2⌋. In kInterleaved order, even columns
/// are sines, odd columns cosines.
enum class FrequencyScheme {
  kPaired,            // t / base^(2i / width): one angle per pair (Vaswani et al. 2017, sec. 3.5)
  kFormalAlgorithms,  // t / base^(2(i + 1) / width) (Phuong & Hutter 2022, algorithm 2)
  kPerColumn,         // t / base^(j / width): one angle per column
};

/// The order of the sine and cosine columns.
enum class SinusoidLayout {
  kInterleaved,  // sin cos sin cos …
  kHalves,       // the sines, then the cosines (tensor2tensor)
};

struct SinusoidalOptions {
  double base = 10000;                                   // base of the angles: see FrequencyScheme
  FrequencyScheme scheme = FrequencyScheme::kPaired;     // angle of each column
  SinusoidLayout layout = SinusoidLayout::kInterleaved;  // order of the columns
  double first_position = 0;                             // t of the first row
};

/// Fixed positions: x [..., length, width] → x + the first `length` rows of a table of sinusoids.
/// If the width is odd, the last column is a sine in both layouts. Buffer: table [max_length,
/// width].
class Sinusoidal : public Layer {
 public:
  /// Requires options.base above 0.
  Sinusoidal(std::size_t max_length, std::size_t width, const SinusoidalOptions& options = {});

  Variable forward(const Variable& x);  // x [..., length, width] → the same shape

  /// Returns `length` rows [length, width], from `first_position` on.
  Variable rows(Tape& tape, std::size_t length, std::size_t first_position = 0);

  Buffer table;  // [max_length, width]
};

}  // namespace rowgrad
