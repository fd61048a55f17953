#include <algorithm>
#include <array>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>

#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/examples/support/why_row.hpp>
#include <rowgrad/optim/training/row_movement.hpp>

namespace rowgrad {
namespace {

Parameter& table_named(LanguageModel& model, const std::string& name) {
  for (Parameter* parameter : model.parameters())
    if (parameter->name() == name && parameter->shape().size() == 2) return *parameter;
  throw std::invalid_argument(concat("--table: the model has no table ", in_quotes(name)));
}

// The same run, before its first step or at that of an earlier checkpoint.
std::unique_ptr<TextRun> begin_again(const WhyOptions& options, const TextRun& run,
                                     const Corpus& corpus) {
  if (!options.from.empty()) {
    auto again = TextRun::resume(options.from, corpus);
    again->set_options(run.options());  // which may have been changed on the way
    return again;
  }
  return std::make_unique<TextRun>(run.options(), tokenizer_from_json(run.tokenizer().to_json()),
                                   corpus);
}

// The text of each token, with the spaces that decoding puts between tokens.
std::vector<std::string> pieces_of(const std::vector<std::int32_t>& tokens,
                                   const Tokenizer& tokenizer) {
  std::vector<std::string> pieces;
  std::size_t decoded = 0;
  for (std::size_t i = 1; i <= tokens.size(); ++i) {
    const std::string text = tokenizer.decode(std::span(tokens).first(i));
    pieces.push_back(text.substr(std::min(decoded, text.size())));
    decoded = text.size();
  }
  return pieces;
}

std::string percent(double share) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << 100 * share + 0.0 << " %";
  return std::move(text).str();
}

void print(const RowMovement::Summary& all, const Tokenizer& tokenizer, std::size_t first,
           std::size_t last, bool has_windows) {
  std::cout << "Moved      " << std::setprecision(4) << all.moved << " in steps " << first + 1
            << " to " << last << '\n'
            << "Gradients  in " << all.with_gradient << " steps, which made "
            << percent(all.by_gradients) << " of the way"
            << (has_windows ? concat("; ", all.lookups, " lookups\n") : "\n")
            << "Momentum   in the other " << all.without << " steps made "
            << percent(all.by_momentum) << '\n'
            << "Decay      "
            << (all.knows_decay ? concat("made ", percent(all.by_decay))
                                : "is part of what gradients and momentum made")
            << '\n';
  if (all.steps.empty()) return;
  std::cout << "\nThe steps with a gradient in which it moved farthest"
            << (has_windows ? ", and windows that looked it up:\n" : ":\n")
            << "    step  looked up  gradient norm      moved    share\n";
  for (const RowMovement::Step& step : all.steps) {
    std::cout << std::setw(8) << step.step << std::setw(11) << step.lookups << std::scientific
              << std::setprecision(4) << std::setw(15) << step.gradient_norm << std::setw(11)
              << std::setprecision(3) << step.moved << std::defaultfloat << std::setw(9)
              << percent(step.share) << '\n';
    for (const RowMovement::Window& window : step.windows)
      std::cout << "          " << in_quotes(text_around(window, tokenizer)) << '\n';
  }
}

}  // namespace

std::string text_around(const RowMovement::Window& window, const Tokenizer& tokenizer) {
  constexpr std::size_t kBefore = 36;  // bytes
  constexpr std::size_t kInAll = 56;
  std::vector<std::string> pieces = pieces_of(window.tokens, tokenizer);
  for (const std::size_t i : window.positions) {
    const std::size_t spaces = pieces[i].size() > 1 && pieces[i].front() == ' ' ? 1 : 0;
    pieces[i] = pieces[i].substr(0, spaces) + '[' + pieces[i].substr(spaces) + ']';
  }
  const std::size_t middle = window.positions.front();
  std::string text = pieces[middle];
  for (std::size_t i = middle; i-- > 0 && text.size() + pieces[i].size() <= kBefore;)
    text.insert(0, pieces[i]);
  for (std::size_t i = middle + 1; i < pieces.size() && text.size() + pieces[i].size() <= kInAll;
       ++i)
    text += pieces[i];
  return text;
}

OptionTable option_table_of(WhyOptions& o, const OptionTable& others) {
  OptionRules why = needs("--run");  // which has options of its own
  for (const Option& other : others)
    if (other.name != "--corpus") why.excludes.push_back(other.name);
  return {
      {"--why", &o.row, "row: why it moved in the training run of --run",
       whole_number(0, std::numeric_limits<std::int32_t>::max()), why},
      {"--run", &o.run, "its checkpoint; the run is trained again up to there", file_name(),
       needs("--why")},
      {"--from", &o.from, "an earlier checkpoint of it to begin at", file_name(), needs("--why")},
      {"--table", &o.table, "whose row it is", {}, needs("--why")},
      {"--why-steps", &o.steps, "steps to show", whole_number(1), needs("--why")}};
}

void print_why(const WhyOptions& options, const std::vector<std::string>& corpus_files) {
  const Checkpoint run = read_safetensors(options.run);
  // These would be trained where they are, and go back to the checkpoint that is read.
  check_argument(saved_options(run, options.run).table_paths().empty(), "--run: ", options.run,
                 " has tables in files, which are not trained again");
  const Corpus corpus =
      Corpus::find(corpus_files.empty() ? saved_corpus(run, options.run) : corpus_files);
  const auto end = TextRun::resume(run, options.run, corpus);
  const auto again = begin_again(options, *end, corpus);
  const std::size_t first = again->run.steps();
  const std::size_t last = end->run.steps();
  check_argument(first < last, "--from: is at step ", first, ", and --run at step ", last);
  Parameter& table = table_named(again->model(), options.table);
  const std::string kind = again->model().names_of_rows(table).kind;
  const auto row = static_cast<std::int32_t>(options.row);
  RowMovement movement(again->model(), table, row, {.steps = options.steps, .windows = 2});
  again->run.observe(movement);
  again->run.train(last);

  const std::array rows{row};
  check_runtime(table.rows(rows) == table_named(end->model(), options.table).rows(rows),
                options.run, ": the run that was trained again ends at other values of row ", row,
                "; if it began from other weights, or if its options were changed on the way, give "
                "a checkpoint after that as --from");
  std::cout << "Row        " << row << " of " << options.table;
  if (kind == "token") std::cout << ", " << in_quotes(again->tokenizer().token(row));
  std::cout << "; trained again, it ends at the same values, bit for bit\n";
  print(movement.summary(), again->tokenizer(), first, last, kind == "token" || kind == "n-gram");
}

}  // namespace rowgrad
