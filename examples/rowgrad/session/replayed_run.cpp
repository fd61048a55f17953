#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/session/replayed_run.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad {
namespace {

const Parameter& table_named(const LanguageModel& model, const std::string& name) {
  for (const Parameter* parameter : model.parameters())
    if (parameter->name() == name && parameter->shape().size() == 2) return *parameter;
  throw std::invalid_argument(concat("--table: the model has no table ", in_quotes(name)));
}

// A number, or the row of this token, as it is or as rows prints it, or of this name.
std::int32_t row_named(const std::string& wanted, const RowNames& names, const Tokenizer& tokenizer,
                       const Parameter& table) {
  std::int32_t row = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [rest, error] = std::from_chars(wanted.data(), end, row);
  if (error == std::errc() && rest == end) {
    check_argument(row >= 0 && std::cmp_less(row, table.shape()[0]), "--explain: there is no row ",
                   row, " of ", table.name(), "; rows have the numbers 0 to ",
                   table.shape()[0] - 1);
    return row;
  }
  const bool has_tokens = names.kind == RowKind::kToken;
  const std::size_t rows = has_tokens ? tokenizer.size() : names.names.size();
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string name =
        has_tokens ? tokenizer.token(static_cast<std::int32_t>(i)) : names.names[i];
    if (wanted == name || wanted == readable_token(name)) return static_cast<std::int32_t>(i);
  }
  throw std::invalid_argument(concat("--explain ", in_quotes(wanted), ": no ", names.word(), " of ",
                                     table.name(), " is that; rows have the numbers 0 to ",
                                     table.shape()[0] - 1));
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

std::string percent(double share) { return formatted("%.1f %%", 100 * share + 0.0); }

void print(const RowMovement::Summary& all, const Tokenizer& tokenizer, std::size_t first,
           std::size_t last, bool has_windows) {
  std::cout << "Moved      " << formatted("%.4g", all.moved) << " in steps " << first + 1 << " to "
            << last << "\nGradients  in " << all.with_gradient << " steps, which made "
            << percent(all.by_gradients) << " of the way"
            << (has_windows ? concat("; ", all.lookups, " lookups\n") : "\n")
            << "Momentum   in the other " << all.without << " steps made "
            << percent(all.by_momentum) << "\nDecay      "
            << (all.knows_decay ? "made " + percent(all.by_decay)
                                : "is part of what gradients and momentum made")
            << '\n';
  if (all.steps.empty()) return;
  std::cout << "\nThe steps with a gradient in which it moved farthest"
            << (has_windows ? ", and windows that looked it up:\n" : ":\n")
            << "    step  looked up  gradient norm      moved    share\n";
  for (const RowMovement::Step& step : all.steps) {
    std::cout << formatted("%8zu%11zu%15.4e%11.3e%9s\n", step.step, step.lookups,
                           step.gradient_norm, step.moved, percent(step.share).c_str());
    for (const RowMovement::Window& window : step.windows)
      std::cout << "          " << in_quotes(text_around(window, tokenizer)) << '\n';
  }
}

}  // namespace

ReplayedRun::ReplayedRun(const std::string& path, const std::string& from,
                         const std::vector<std::string>& corpus)
    : path_(path),
      file_(with_sharded_rows(read_safetensors(path), path)),
      options_(saved_options(file_, path)),
      corpus_(Corpus::find(corpus.empty() ? saved_corpus(file_, path) : corpus)) {
  last_ = file_.count("steps");
  check_argument(last_ > 0, path, ": has made no steps");
  const bool has_tables = !options_.table_paths().empty();
  if (from.empty()) {
    // Removed as soon as the files in it are open: nothing is left of them, however this ends.
    std::optional<ScratchFolder> tables;
    if (has_tables) tables.emplace();
    run_ = Session::begin_again(file_, path, corpus_, tables ? tables->path() : "");
  } else {
    check_argument(!has_tables, "--from: ", path,
                   " has tables in files, which only a run from its start can make again");
    run_ = Session::resume(from, corpus_);
    run_->set_options(options_);  // changed on the way, perhaps
  }
  has_history_ = from.empty() && !has_tables && file_.contains("watched.rows.first_step") &&
                 file_.count("watched.rows.first_step") == 0;
  first_ = run_->run.steps();
  check_argument(first_ < last_, "--from: is at step ", first_, ", and RUN at step ", last_);
}

std::vector<std::string> ReplayedRun::table_files() const {
  std::vector<std::string> files;
  for (const std::string& table : options_.table_paths()) {
    files.push_back(table);
    const std::filesystem::path folder = std::filesystem::absolute(table).parent_path();
    const std::string name = std::filesystem::path(table).filename();
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string other = entry.path().filename();
      if (other.starts_with(name + ".undo-") || other.starts_with(name + ".rank"))
        files.push_back(entry.path());
    }
  }
  return files;
}

void ReplayedRun::load(RowHistory& rows) {
  rows.load_state_dict(file_.part("watched.rows"));
  run_->run.load_state_dict(file_);
}

void ReplayedRun::train() {
  run_->run.train(last_);
  for (Parameter* parameter : run_->model().parameters()) {
    if (!parameter->is_in_memory()) continue;  // in a file: the checkpoint has its mark
    const Tensor& now = parameter->value();
    const Tensor then = file_.tensor("model." + parameter->name(), parameter->shape());
    const auto same_bits = [](real a, real b) { return std::memcmp(&a, &b, sizeof a) == 0; };
    const auto place =
        static_cast<std::size_t>(std::ranges::mismatch(now, then, same_bits).in1 - now.begin());
    check_runtime(
        place == now.size(), path_, ": the run that was trained again ends at other values of row ",
        place * now.shape()[0] / std::max<std::size_t>(now.size(), 1), " of ", parameter->name(),
        "; if it began from other weights, or if its options were changed on the way, "
        "give a checkpoint after that as --from");
  }
}

void print_why(ReplayedRun& again, const WhyOptions& options) {
  Session& training = again.run();
  const Parameter& table = table_named(training.model(), options.table);
  const RowNames names = training.model().names_of_rows(table);
  const std::int32_t row = row_named(options.row, names, training.tokenizer(), table);
  RowMovement movement(training.model(), table, row, {.steps = options.steps, .windows = 2});
  training.run.add(movement);
  again.train();
  std::cout << "Row        " << row << " of " << options.table;
  if (names.kind == RowKind::kToken)
    std::cout << ", " << in_quotes(training.tokenizer().token(row));
  std::cout << "; trained again, it ends at the same values, bit for bit\n";
  print(movement.summary(), training.tokenizer(), again.first(), again.last(),
        names.kind == RowKind::kToken || names.kind == RowKind::kNgram);
}

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

}  // namespace rowgrad
