#pragma once

#include <cstddef>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

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
