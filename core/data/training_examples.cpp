#include <algorithm>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/training_examples.hpp>

namespace rowgrad {
namespace {

void check_ids(const char* caller, const char* what, const Ids& ids) {
  check_argument(ids.dimension() == 1 && ids.size() > 0, caller, ": ", what, " has shape ",
                 bracketed(ids.shape()), ", expected one axis and at least one id");
}

// Fills windows with examples: if `packed`, with consecutive examples until the next one does not
// fit; otherwise, with one example each.
TokenWindows windows_of(const char* caller, std::span<const TrainingExample> examples,
                        const ExampleWindowOptions& options, bool packed) {
  check_argument(!examples.empty(), caller, ": there are no examples, expected at least one");
  std::size_t context = options.context;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto& [inputs, targets] = examples[i];
    check_argument(!inputs.empty() && inputs.size() == targets.size(), caller, ": example ", i,
                   " has ", inputs.size(), " ids and ", targets.size(),
                   " targets, expected one or more ids, each with a target");
    check_argument(options.context == 0 || inputs.size() <= options.context, caller, ": example ",
                   i, " has ", inputs.size(), " ids, expected at most the context, ",
                   options.context);
    if (options.context == 0) context = std::max(context, inputs.size());
  }
  element_count({examples.size(), context}, caller);
  std::vector<std::int32_t> ids, targets;
  const auto fill_up = [&] {
    const std::size_t end = (ids.size() + context - 1) / context * context;
    ids.resize(end, options.padding);
    targets.resize(end, kIgnoredTarget);
  };
  for (const auto& [example_ids, example_targets] : examples) {
    if (!packed || context - ids.size() % context < example_ids.size()) fill_up();
    ids.insert(ids.end(), example_ids.begin(), example_ids.end());
    targets.insert(targets.end(), example_targets.begin(), example_targets.end());
  }
  fill_up();
  return {to_ids(ids), to_ids(targets), {.context = context, .stride = context}};
}

}  // namespace

TrainingExample classification_example(const Ids& ids, std::size_t label, std::size_t max_ids) {
  check_ids("classification_example", "ids", ids);
  check_argument(max_ids > 0, "classification_example: max_ids is 0, expected at least 1");
  check_argument(label <= std::numeric_limits<std::int32_t>::max(),
                 "classification_example: label is ", label, ", expected less than 2^31");
  const std::size_t length = std::min(ids.size(), max_ids);
  TrainingExample example{{ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)},
                          std::vector<std::int32_t>(length, kIgnoredTarget)};
  example.targets.back() = static_cast<std::int32_t>(label);
  return example;
}

TrainingExample answer_example(const Ids& prompt, const Ids& answer, std::int32_t end) {
  check_ids("answer_example", "prompt", prompt);
  check_ids("answer_example", "answer", answer);
  TrainingExample example{{prompt.begin(), prompt.end()},
                          std::vector<std::int32_t>(prompt.size() - 1, kIgnoredTarget)};
  example.inputs.insert(example.inputs.end(), answer.begin(), answer.end());
  example.targets.insert(example.targets.end(), answer.begin(), answer.end());
  example.targets.push_back(end);
  return example;
}

TokenWindows padded_windows(std::span<const TrainingExample> examples,
                            const ExampleWindowOptions& options) {
  return windows_of("padded_windows", examples, options, false);
}

TokenWindows packed_windows(std::span<const TrainingExample> examples,
                            const ExampleWindowOptions& options) {
  return windows_of("packed_windows", examples, options, true);
}

}  // namespace rowgrad
