#pragma once

// Texts with targets of their own: classes of texts, and instructions whose answers alone are
// learned. Examples become windows, and these go to a DataLoader as those of a long text do. Wrong
// arguments throw std::invalid_argument.
//
//   std::vector<TrainingExample> examples;
//   for (const auto& [text, label] : reviews)
//     examples.push_back(classification_example(tokenizer.encode(text), label));
//   DataLoader loader(padded_windows(examples, {.context = 120, .padding = 0}), {.batch = 8});

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

/// The target of a position that is not learned (see CrossEntropyOptions::ignore_index).
constexpr std::int32_t kIgnoredTarget = -100;

/// A text and, for each of its ids, the target or kIgnoredTarget.
struct TrainingExample {
  std::vector<std::int32_t> inputs;   // ids of the text
  std::vector<std::int32_t> targets;  // one target for each input
};

/// A text that is of a class: its last id has the class as a target, all others none. Of a longer
/// text, only the first `most` ids are kept.
TrainingExample classification_example(const Ids& ids, std::size_t label,
                                       std::size_t most = std::numeric_limits<std::size_t>::max());

/// A prompt and its answer: each id of the answer is the target of the id before it, and `end`, the
/// id that ends a text, that of its last one. The prompt is read, but not learned.
TrainingExample answer_example(const Ids& prompt, const Ids& answer, std::int32_t end);

/// Options of padded_windows() and packed_windows().
struct ExampleWindowOptions {
  /// The length of a window; 0 for that of the longest example. Longer ones are refused.
  std::size_t context = 0;
  /// The id that fills a window up after its examples.
  std::int32_t padding = 0;
};

/// A window for each example, filled up with padding whose targets are ignored. As positions of a
/// causal model do not see what follows, padding changes nothing but the time that it takes.
TokenWindows padded_windows(std::span<const TrainingExample> examples,
                            const ExampleWindowOptions& options = {});

/// As many examples in a window as fit, one after another, in their order: fewer windows, but an
/// example sees those before it in its window, as tokens of a long text do.
TokenWindows packed_windows(std::span<const TrainingExample> examples,
                            const ExampleWindowOptions& options = {});

}  // namespace rowgrad
