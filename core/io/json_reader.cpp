#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <rowgrad/core/io/json_reader.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/core/tensor/utf8.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kBlanks = " \t\n\r";
constexpr std::string_view kEscapes = "\"\\/bfnrt";  // what may stand after a backslash, but for u
constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";

constexpr bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// ASCII that stands for itself in a string: most of a text.
constexpr bool is_plain(char byte) {
  return byte >= 0x20 && byte <= 0x7E && byte != '"' && byte != '\\';
}

void append_code_unit(std::string& text, char32_t unit) {
  text += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) text += "0123456789abcdef"[unit >> shift & 15];
}

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string name)
    : text_(text), name_(std::move(name)) {}

void JsonReader::fail(std::string_view problem) const {
  throw std::runtime_error(concat(name_, ", byte ", at_, ": ", problem));
}

// The byte that the next value or sign begins with; at the end a 0, with which nothing begins.
char JsonReader::peek() {
  at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonReader::open(char bracket, std::string_view expected) {
  if (peek() != bracket) fail(concat("expected ", expected));
  ++at_;
}

// Whether the object or array that ends with `bracket` goes on. Passes the comma, or the bracket.
bool JsonReader::has_next(char bracket, bool first) {
  const char next = peek();
  if (next == bracket) {
    ++at_;
    return false;
  }
  if (first) return true;
  if (next != ',') fail(concat("expected ',' or '", bracket, '\''));
  ++at_;
  return true;
}

const std::string& JsonReader::read_key(std::unordered_set<std::string>& keys) {
  const auto [key, is_new] = keys.insert(string());
  if (!is_new) fail(concat("the key ", in_quotes(*key), " is there twice"));
  if (peek() != ':') fail("expected ':'");
  ++at_;
  return *key;
}

std::string JsonReader::string() {
  open('"', "a string");
  std::string result;
  for (;;) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    result.append(text_, begin, at_ - begin);
    if (at_ == text_.size()) fail("a string without end");
    if (text_[at_] == '"') break;
    if (text_[at_] == '\\') {
      read_escaped(result);
      continue;
    }
    const Utf8Character character = decode_utf8(text_, at_);
    if (character.code_point == kInvalidCodePoint) fail("a byte that is not part of valid UTF-8");
    if (character.code_point < 0x20) fail("a control character in a string");
    result.append(text_, at_, character.bytes);
    at_ += character.bytes;
  }
  ++at_;
  return result;
}

void JsonReader::read_escaped(std::string& result) {
  const std::size_t begin = at_++;
  const auto refuse = [&](std::string_view problem) {
    at_ = begin;
    fail(problem);
  };
  const char escape = at_ < text_.size() ? text_[at_++] : '\0';
  if (escape != 'u') {
    const std::size_t which = kEscapes.find(escape);
    if (which == std::string_view::npos) refuse("an unknown escape in a string");
    result += kEscaped[which];
    return;
  }
  char32_t point = read_code_unit();
  if (is_surrogate(point)) {
    const bool first = point < 0xDC00 && text_.substr(at_).starts_with("\\u");
    if (first) at_ += 2;
    const char32_t second = first ? read_code_unit() : 0;
    if (!is_surrogate(second) || second < 0xDC00) refuse("half of a character in a string");
    point = 0x10000 + ((point - 0xD800) << 10) + (second - 0xDC00);
  }
  append_utf8(result, point);
}

// Four hexadecimal digits.
char32_t JsonReader::read_code_unit() {
  const std::string_view digits = text_.substr(at_, 4);
  std::uint16_t unit = 0;
  const auto end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, unit, 16);
  if (digits.size() < 4 || rest != end || error != std::errc())
    fail("expected four hexadecimal digits");
  at_ += 4;
  return unit;
}

std::size_t JsonReader::skip_digits() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  return at_ - begin;
}

std::string_view JsonReader::number() {
  const char first = peek();
  if (first != '-' && !is_digit(first)) fail("expected a value");
  const std::size_t begin = at_;
  const auto pass = [&](std::string_view one_of) {
    const bool found = at_ < text_.size() && one_of.find(text_[at_]) != std::string_view::npos;
    if (found) ++at_;
    return found;
  };
  const auto pass_digits = [&] {
    if (skip_digits() == 0) fail("expected a digit");
  };
  pass("-");
  if (!pass("0")) pass_digits();  // no digit follows a 0 at the beginning
  if (pass(".")) pass_digits();
  if (pass("eE")) {
    pass("+-");
    pass_digits();
  }
  return text_.substr(begin, at_ - begin);
}

std::uint64_t JsonReader::whole_number() {
  const bool found = is_digit(peek());
  const std::size_t begin = at_;
  const std::string_view digits = found ? number() : std::string_view();
  std::uint64_t value = 0;
  const auto end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value);
  if (rest != end || error != std::errc()) {
    at_ = begin;
    fail("expected a whole number below 2^64");
  }
  return value;
}

void JsonReader::skip(int depth) {
  const char next = peek();
  if (next == '{' || next == '[') {
    if (depth == 0) fail("values are nested too deep");
    if (next == '{') {
      object([&](const std::string&) { skip(depth - 1); });
    } else {
      array([&] { skip(depth - 1); });
    }
    return;
  }
  if (next == '"') {
    string();
    return;
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (!text_.substr(at_).starts_with(word)) continue;
    at_ += word.size();
    return;
  }
  number();
}

void JsonReader::finish() {
  peek();
  if (at_ < text_.size()) fail("expected the end");
}

void check_json(std::string_view text, std::string name) {
  JsonReader json(text, std::move(name));
  json.skip();
  json.finish();
}

std::string json_string(std::string_view text) {
  check_utf8("json_string", text);
  std::string result = "\"";
  for (std::size_t offset = 0; offset < text.size();) {
    const auto [point, bytes] = decode_utf8(text, offset);
    offset += bytes;
    const char byte = point < 0x80 ? static_cast<char>(point) : '\0';
    const std::size_t which = kEscaped.find(byte);
    if (is_plain(byte)) {
      result += byte;
    } else if (byte != '\0' && which != std::string_view::npos) {
      result += '\\';
      result += kEscapes[which];
    } else if (point < 0x10000) {
      append_code_unit(result, point);
    } else {  // two halves, as in UTF-16
      append_code_unit(result, 0xD800 + ((point - 0x10000) >> 10));
      append_code_unit(result, 0xDC00 + (point & 0x3FF));
    }
  }
  return result + '"';
}

}  // namespace rowgrad
