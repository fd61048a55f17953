#include <algorithm>
#include <charconv>
#include <iostream>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/row_explanation.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad {
namespace {

const Parameter& table_named(const LanguageModel& model, const std::string& name) {
  for (const Parameter* parameter : model.parameters())
    if (parameter->name() == name && parameter->shape().size() == 2) return *parameter;
  throw std::invalid_argument(concat("--table: the model has no table ", in_quotes(name)));
}

// Returns the row with this index, token (verbatim, or as `rowgrad rows` prints it) or name.
std::int32_t row_named(const std::string& wanted, const RowNames& names, const Tokenizer& tokenizer,
                       const Parameter& table) {
  std::int32_t row = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [rest, error] = std::from_chars(wanted.data(), end, row);
  if (error == std::errc() && rest == end) {
    check_argument(row >= 0 && std::cmp_less(row, table.shape()[0]), "--explain: row ", row,
                   " is out of range: ", table.name(), " has rows 0 to ", table.shape()[0] - 1);
    return row;
  }
  const bool has_tokens = names.kind == RowKind::kToken;
  const std::size_t rows = has_tokens ? tokenizer.size() : names.names.size();
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string name =
        has_tokens ? tokenizer.token(static_cast<std::int32_t>(i)) : names.names[i];
    if (wanted == name || wanted == readable_token(name)) return static_cast<std::int32_t>(i);
  }
  throw std::invalid_argument(concat("--explain: ", table.name(), " has no ", names.word(), ' ',
                                     in_quotes(wanted), "; its rows are 0 to ",
                                     table.shape()[0] - 1));
}

// Returns the text of each token, including the space that decoding may put before it.
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
            << last << "\nGradients  " << percent(all.by_gradients) << " of the movement, in "
            << all.with_gradient << " steps"
            << (has_windows ? concat(" with ", all.lookups, " lookups\n") : "\n") << "Momentum   "
            << percent(all.by_momentum) << ", in the other " << all.without << " steps\nDecay      "
            << (all.knows_decay ? percent(all.by_decay) : "included in gradients and momentum")
            << '\n';
  if (all.steps.empty()) return;
  std::cout << "\nSteps with a gradient that moved the row farthest"
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

void explain_row(ReplayedRun& replayed, const ExplainOptions& options) {
  Session& session = replayed.session();
  const Parameter& table = table_named(session.model(), options.table);
  const RowNames names = session.model().resolve_row_names(table);
  const std::int32_t row = row_named(options.row, names, session.tokenizer(), table);
  RowMovement movement(session.model(), table, row, {.steps = options.steps, .windows = 2});
  session.run().add(movement);
  replayed.train();
  std::cout << "Row        " << row << " of " << options.table;
  if (names.kind == RowKind::kToken) std::cout << ", " << in_quotes(session.tokenizer().token(row));
  std::cout << "; " << replayed.outcome() << '\n';
  print(movement.summary(), session.tokenizer(), replayed.first(), replayed.last(),
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
