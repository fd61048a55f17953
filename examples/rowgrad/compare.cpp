// Compares two checkpoints written by train, and shows the first losses, parameters and rows that
// differ. Like diff, exits with 0 if the runs are equal, 1 if they differ, and 2 after an error.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/checkpoint_difference.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

struct Run {
  std::string file;
  StateDict state;
  std::string prefix = "";  // before the TrainingRun's names: "run." if saved by put("run", …)
  std::unique_ptr<Tokenizer> tokenizer = nullptr;  // null if the file has none

  bool has(const std::string& name) const { return state.contains(prefix + name); }
};

constexpr std::string_view kHistory = "history.epoch";

Run read_run(const std::string& file) {
  Run run{.file = file, .state = with_sharded_rows(read_safetensors(file), file)};
  if (run.state.contains("tokenizer"))
    run.tokenizer = tokenizer_from_json(run.state.string("tokenizer"));
  for (const std::string& name : run.state.names())
    if (name == kHistory || name.ends_with(concat('.', kHistory))) {
      run.prefix = name.substr(0, name.size() - kHistory.size());
      break;
    }
  return run;
}

std::string steps_of(const Run& run) {
  return run.has("steps") ? concat(run.state.count(run.prefix + "steps"), " steps")
                          : "not a training run";
}

// Losses of a run by step and name.
using Losses = std::map<std::pair<std::int64_t, std::string>, double>;

Losses losses_of(const Run& run) {
  Losses losses;
  if (!run.has("history.epoch")) return losses;
  const StateDict history = run.state.part(run.prefix + "history");
  const std::vector<double> steps = history.doubles("steps"), epochs = history.doubles("epoch");
  check_runtime(epochs.size() == steps.size(), run.file, ": the history has ", steps.size(),
                " steps, but ", epochs.size(), " epochs");
  for (const std::string name : {"training_loss", "validation_loss"}) {
    const std::vector<double> values = history.doubles(name);
    check_runtime(values.size() == steps.size(), run.file, ": the history has ", steps.size(),
                  " steps, but ", name, " has length ", values.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (!std::isnan(values[i]))
        losses[{static_cast<std::int64_t>(steps[i]),
                name + (epochs[i] > 0 ? " of the epoch" : "")}] = values[i];
  }
  return losses;
}

void print_losses(const Losses& first, const Losses& second) {
  std::int64_t equal = 0;
  for (const auto& [key, value] : first) {
    const auto other = second.find(key);
    if (other == second.end()) continue;
    if (std::bit_cast<std::uint64_t>(other->second) != std::bit_cast<std::uint64_t>(value)) {
      std::cout << "Losses first differ after step " << key.first << ": " << key.second << ' '
                << digits(value) << " and " << digits(other->second) << '\n';
      return;
    }
    equal = key.first;
  }
  if (equal > 0)
    std::cout << "Losses are equal up to step " << equal << '\n';
  else if (!first.empty() && !second.empty())
    std::cout << "The runs have no losses at a common step\n";
}

// Returns true for values that depend on the machine: speeds and details of its arithmetic.
bool depends_on_machine(const Run& run, const std::string& name) {
  if (!name.starts_with(run.prefix)) return false;
  const std::string_view rest = std::string_view(name).substr(run.prefix.size());
  return rest == "arithmetic" || (rest.starts_with("history.") && rest.ends_with("_per_second"));
}

// Returns true for differences between logs, and for callback state that only one run saved.
bool is_recording(const CheckpointDifference& difference) {
  using enum CheckpointDifference::Kind;
  const bool is_in_one = difference.kind == only_in_first || difference.kind == only_in_second;
  return difference.name.starts_with("watched.log.") ||
         (is_in_one && difference.name.starts_with("watched."));
}

// Returns options that differ, with both values.
std::vector<CheckpointDifference> differences_of_options(const Run& first, const Run& second) {
  using enum CheckpointDifference::Kind;
  std::map<std::string, std::pair<std::string, std::string>> values;
  const auto add = [&](const Run& run, auto side) {
    const Json options(run.state.string("options"), run.file);
    for (const auto& [key, value] : options.members()) values[key].*side = value.dump();
  };
  using Values = std::pair<std::string, std::string>;
  add(first, &Values::first);
  add(second, &Values::second);
  std::vector<CheckpointDifference> all;
  for (const auto& [key, value] : values) {
    if (value.first == value.second) continue;
    std::string name = "--" + key;
    std::ranges::replace(name, '_', '-');
    const auto kind = value.first.empty()    ? only_in_second
                      : value.second.empty() ? only_in_first
                                             : text;
    all.push_back({.name = name, .kind = kind, .first = value.first, .second = value.second});
  }
  return all;
}

void print_elements(const CheckpointDifference& difference, const Tokenizer* tokenizer) {
  const auto [row, rows] = std::pair(difference.row, difference.rows_in_all);
  if (rows > 1) {
    std::cout << "first in row " << row;
    if (tokenizer != nullptr && rows == tokenizer->size())
      std::cout << ' ' << in_quotes(tokenizer->token(static_cast<std::int32_t>(row)));
    std::cout << ", column " << difference.column << ": ";
  }
  std::cout << difference.first << " and " << difference.second;
  if (rows > 1)
    std::cout << "; " << difference.rows << " of " << rows << " rows differ, by at most "
              << difference.largest_difference;
}

void print(const CheckpointDifference& difference, const Run& first, const Run& second) {
  using enum CheckpointDifference::Kind;
  std::cout << difference.name << ": ";
  if (difference.kind == numbers) print_elements(difference, first.tokenizer.get());
  if (difference.kind == only_in_first) std::cout << "only in " << first.file;
  if (difference.kind == only_in_second) std::cout << "only in " << second.file;
  if (difference.kind == text && difference.first.empty()) std::cout << "different text";
  if (difference.kind == text && !difference.first.empty())
    std::cout << difference.first << " and " << difference.second;
  if (difference.kind == type_or_shape) std::cout << "different type, shape or length";
  std::cout << '\n';
}

int compare(const Run& first, const Run& second, std::size_t most) {
  std::cout << first.file << ": " << steps_of(first) << '\n'
            << second.file << ": " << steps_of(second) << '\n';
  if (steps_of(first) != steps_of(second) && first.has("steps") && second.has("steps"))
    std::cout << "The runs are at different steps; their current values are compared\n";
  std::vector<CheckpointDifference> all = differences(first.state, second.state);
  std::erase_if(all, [&](const auto& each) {
    return is_recording(each) || depends_on_machine(first, each.name) ||
           depends_on_machine(second, each.name);
  });
  print_losses(losses_of(first), losses_of(second));
  // The model's values come first, then values derived from training, such as optimizer state.
  std::ranges::stable_sort(all, {}, [&](const auto& difference) {
    return difference.name.starts_with(first.prefix + "model.") ? 0 : 1;
  });
  const auto options = std::ranges::find(all, "options", &CheckpointDifference::name);
  if (options != all.end() && options->kind == CheckpointDifference::Kind::text) {
    all.erase(options);
    const std::vector<CheckpointDifference> each = differences_of_options(first, second);
    all.insert(all.begin(), each.begin(), each.end());
  }
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i) print(all[i], first, second);
  if (all.size() > most)
    std::cout << "… and " << all.size() - most << " more (--max-differences)\n";
  std::cout << (all.empty() ? "The runs are equal.\n" : "The runs differ.\n");
  return all.empty() ? 0 : 1;
}

}  // namespace

int compare_command(int argc, const char* const* argv) {
  std::string first, second;
  std::size_t most = 10;
  CommandLine line(
      "rowgrad compare",
      "Show the differences between two checkpoints, bit for bit: the first losses, parameters and "
      "rows that differ. Histories of rows are compared if both files have them; speed, machine "
      "and logs are not. The exit status is 0 if the runs are equal, 1 if they differ, and 2 after "
      "an error.",
      {{"FIRST", &first, "first checkpoint", file_name() + required()},
       {"SECOND", &second, "second checkpoint", file_name() + required()},
       {"--max-differences", &most, "maximum number of differences to show", whole_number(0)}});
  line.parse(argc, argv);
  return compare(read_run(first), read_run(second), most);
}

}  // namespace rowgrad
