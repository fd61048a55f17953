#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <rowgrad/layers/dropout.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// The angle of column j at position t; columns 2i are sines and columns 2i + 1 cosines.
enum class FrequencyScheme {
  kPaired,            // t / base^(2i / width): one angle a pair (Vaswani et al. 2017, section 3.5)
  kFormalAlgorithms,  // t / base^(2(i + 1) / width): the formula of Phuong & Hutter 2022, algorithm
                      // 2
  kPerColumn,         // t / base^(j / width): an angle a column, as printed code beside it has it
};

enum class SinusoidLayout {
  kInterleaved,  // sin cos sin cos …
  kHalves,       // the sines, then the cosines (tensor2tensor)
};

struct SinusoidalOptions {
  double base = 10000;
  FrequencyScheme scheme = FrequencyScheme::kPaired;
  SinusoidLayout layout = SinusoidLayout::kInterleaved;
  double first_position = 0;  // t of the first row; 1 for texts that count from one
  double dropout = 0;         // on the sum, in training mode; 0.1 in Vaswani et al. 2017
  std::optional<std::uint64_t> seed = std::nullopt;  // of dropout; none: see Dropout
};

/// Fixed positions: x [..., length, width] → x + the first `length` rows of a table of sinusoids.
/// An odd width ends with a sine in either layout. Buffer: table [max_length, width], saved with
/// the model and never trained.
class Sinusoidal : public Layer {
 public:
  /// Throws std::invalid_argument for a max_length or width of 0, more numbers than memory could
  /// hold, a base that is not above 0 and finite, and dropout outside [0, 1].
  Sinusoidal(std::size_t max_length, std::size_t width, const SinusoidalOptions& options = {});

  /// Throws std::invalid_argument for x longer than max_length or of another width.
  Variable forward(const Variable& x);

  /// forward(token.forward(tape, ids)) in one pass over memory: ids [..., length].
  Variable forward(Tape& tape, Embedding& token, const Ids& ids);

  const Tensor& table() const { return table_; }

 private:
  Variable rows(Tape& tape, const Shape& shape_of_x);

  Tensor table_;
  Dropout dropout_;
};

}  // namespace rowgrad
