#include <algorithm>
#include <charconv>
#include <iostream>
#include <numeric>
#include <string_view>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/row_explanation.hpp>
#include <rowgrad/examples/rowgrad/output/word_vectors.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad {
namespace {

const Parameter& table_named(const Model& model, const std::string& name) {
  for (const Parameter* parameter : model.parameters())
    if (parameter->name() == name && parameter->shape().size() == 2) return *parameter;
  std::string names;
  for (const Parameter* parameter : model.parameters())
    if (parameter->shape().size() == 2 && model.resolve_row_names(*parameter).kind != RowKind::kRow)
      names += concat(names.empty() ? "" : ", ", parameter->name());
  throw std::invalid_argument(
      concat("--table: the model has no table ", in_quotes(name), ", expected one of ", names));
}

// Returns the string without spaces at its ends, and in lower case if it is ASCII.
std::string simplified(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \n"), text.size());
  std::string simple(text.substr(begin, text.find_last_not_of(" \n") + 1 - begin));
  for (char& c : simple)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return simple;
}

// Returns the least number of bytes to insert, delete or replace that turns `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> costs(b.size() + 1);  // for the first i bytes of `a`
  std::iota(costs.begin(), costs.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t replaced = std::exchange(costs[0], i + 1);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::size_t cost =
          std::min({costs[k] + 1, costs[k + 1] + 1, replaced + (a[i] != b[k])});
      replaced = std::exchange(costs[k + 1], cost);
    }
  }
  return costs.back();
}

// Returns the name that resembles `wanted` most, or "" if none resembles it.
std::string similar_name(const std::string& wanted, const std::vector<std::string>& names) {
  const std::string simple = simplified(wanted);
  std::size_t least = simple.size() / 3 + 1;  // edits
  std::string similar;
  for (const std::string& name : names) {
    if (name.size() > wanted.size() + 8) continue;
    const std::size_t edits = edit_distance(simple, simplified(name));
    if (edits < least) similar = name;
    least = std::min(least, edits);
  }
  return similar;
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
           std::size_t last, bool has_lookups) {
  const bool has_windows =
      std::ranges::any_of(all.steps, [](const auto& step) { return !step.windows.empty(); });
  std::cout << "Moved      " << formatted("%.4g", all.moved) << " in steps " << first + 1 << " to "
            << last << "\nGradients  " << percent(all.by_gradients) << " of the movement, in "
            << all.with_gradient << " steps"
            << (has_lookups ? concat(" with ", all.lookups, " lookups\n") : "\n") << "Momentum   "
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

std::int32_t row_named(const char* option, const std::string& wanted, const RowSet& rows) {
  std::int32_t row = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [rest, error] = std::from_chars(wanted.data(), end, row);
  if (error == std::errc() && rest == end) {
    check_argument(row >= 0 && std::cmp_less(row, rows.count), option, ": row ", row,
                   " is out of range: ", rows.table, " has rows 0 to ", rows.count - 1);
    return row;
  }
  std::vector<std::string> names = rows.names.names;
  if (rows.names.kind == RowKind::kToken) {
    names.clear();
    for (std::size_t i = 0; i < rows.tokenizer.size(); ++i)
      names.push_back(rows.tokenizer.token(static_cast<std::int32_t>(i)));
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (wanted == names[i] || wanted == readable_token(names[i]))
      return static_cast<std::int32_t>(i);
  const std::string similar = similar_name(wanted, names);
  throw std::invalid_argument(
      concat(option, ": ", rows.table, " has no ", rows.names.word(), ' ', in_quotes(wanted),
             similar.empty() ? "" : concat(" (did you mean ", in_quotes(similar), "?)"),
             "; its rows are 0 to ", rows.count - 1));
}

void explain_row(ReplayedRun& replayed, const ExplainOptions& options) {
  Session& session = replayed.session();
  const Parameter& table = options.table.empty() ? word_table(session.model())
                                                 : table_named(session.model(), options.table);
  const RowNames names = session.model().resolve_row_names(table);
  const std::int32_t row = row_named("--explain", options.row,
                                     {table.name(), table.shape()[0], names, session.tokenizer()});
  RowMovement movement(session.model(), table, row, {.steps = options.steps, .windows = 2});
  session.run().add(movement);
  replayed.train();
  std::cout << "Row        " << row << " of " << table.name();
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
