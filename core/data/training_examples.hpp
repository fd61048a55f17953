#pragma once

// Examples with their own targets: classified documents, and instructions whose answers are
// learned. They become windows for a DataLoader. Invalid arguments throw std::invalid_argument.
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

/// Token ids, each with its target or kIgnoredTarget.
struct TrainingExample {
  std::vector<std::int32_t> inputs;   // token ids
  std::vector<std::int32_t> targets;  // one target per input
};

/// Returns a document with its class. Documents longer than `max_ids` are cut. The target of the
/// last id is `label`; all other targets are ignored.
TrainingExample classification_example(
    const Ids& ids, std::size_t label,
    std::size_t max_ids = std::numeric_limits<std::size_t>::max());

/// Returns a prompt and its answer. Each answer id is the target of the id before it, and `end`,
/// the end-of-text id, is the target of the last answer id. The prompt is read, but not learned.
TrainingExample answer_example(const Ids& prompt, const Ids& answer, std::int32_t end);

/// Options of padded_windows() and packed_windows().
struct ExampleWindowOptions {
  /// The window length; if 0, the length of the longest example. Longer examples are rejected.
  std::size_t context = 0;
  /// The id that fills up a window after its examples.
  std::int32_t padding = 0;
};

/// Returns one window per example, padded at the end with ignored targets. In a causal model,
/// padding costs time but changes no results, because no position sees what follows.
TokenWindows padded_windows(std::span<const TrainingExample> examples,
                            const ExampleWindowOptions& options = {});

/// Returns windows filled with consecutive examples. This gives fewer windows, but an example sees
/// the previous examples in its window.
TokenWindows packed_windows(std::span<const TrainingExample> examples,
                            const ExampleWindowOptions& options = {});

}  // namespace rowgrad
