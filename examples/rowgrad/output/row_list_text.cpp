#include <cmath>
#include <sstream>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/output/row_list_text.hpp>

namespace rowgrad {
namespace {

bool is_control(char32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
         character == 0x2029;
}

// Returns a quoted field. Quotes are doubled, and a \ precedes the start of a formula.
std::string quoted(const std::string& text) {
  std::string field = text.find_first_of("=+-@") == 0 ? "\"\\" : "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

}  // namespace

std::string token_text(std::string_view token, std::string_view escaped) {
  std::string text;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Character character = decode_utf8(token, at);
    const std::string_view bytes = token.substr(at, character.bytes);
    at += character.bytes;
    if (const std::size_t i = std::string_view("\n\t\r").find(bytes); i < 3) {
      text += {'\\', "ntr"[i]};
    } else if (character.code_point == kInvalidCodePoint || is_control(character.code_point)) {
      for (const char byte : bytes) text += shown_byte(static_cast<unsigned char>(byte));
    } else {
      if (escaped.find(bytes) != std::string_view::npos) text += '\\';
      text += bytes;
    }
  }
  return text;
}

std::string rows_text(const TableHistory& history, const std::vector<ListedRow>& rows,
                      const Tokenizer* tokenizer, char separator) {
  std::ostringstream text;
  text.precision(6);
  const bool has_quotes = separator != '\t';
  const RowLabels labels(history, tokenizer);
  text << "id";
  for (const char* title :
       {"token", "lookups", "steps", "gradient_norm", "norm", "moved", "learned"})
    text << separator << title;
  text << '\n';
  for (const ListedRow& row : rows) {
    const std::string label = token_text(labels.of(row.id), has_quotes ? "\\" : "\\\"");
    text << row.id << separator << (has_quotes ? quoted(label) : label) << separator << row.lookups
         << separator << row.steps;
    for (const double number : {row.gradient_norm, row.norm, row.moved}) {
      text << separator;
      if (!std::isnan(number)) text << number;  // an unknown value is empty
    }
    text << separator << name_of(row.learned) << '\n';
  }
  return std::move(text).str();
}

}  // namespace rowgrad
