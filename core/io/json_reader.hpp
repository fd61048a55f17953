#pragma once

// JSON (RFC 8259) from files that nobody vouches for, and texts into JSON.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

namespace rowgrad {

/// Reads a JSON text from its beginning to its end, in the shape that the caller expects:
///
///   JsonReader json(text, "encoder.json");
///   json.object([&](const std::string& key) { ids[key] = json.whole_number(); });
///   json.finish();
///
/// No tree is built, so that it takes time and memory for what is read, however large, deep or
/// foreign the text is. Everything throws std::runtime_error for text that is not JSON, not UTF-8
/// or of another shape, and for an object with a key twice: `encoder.json, byte 17: expected ':'`.
class JsonReader {
 public:
  /// `text` is borrowed; `name` is what messages call it.
  JsonReader(std::string_view text, std::string name);

  /// Reads an object. `member(key)` is called for each member, to read or skip its value.
  template <class Member>
  void object(const Member& member) {
    std::unordered_set<std::string> keys;
    open('{', "an object");
    for (bool first = true; has_next('}', first); first = false) member(read_key(keys));
  }

  /// Reads an array. `element()` is called for each value in it, to read or skip it.
  template <class Element>
  void array(const Element& element) {
    open('[', "an array");
    for (bool first = true; has_next(']', first); first = false) element();
  }

  std::string string();

  /// A number below 2^64 without sign, fraction and exponent.
  std::uint64_t whole_number();

  /// Reads a value of any kind. Objects and arrays in it may be nested 64 deep.
  void skip() { skip(kDeepest); }

  /// Throws if anything but blanks is left.
  void finish();

 private:
  static constexpr int kDeepest = 64;

  [[noreturn]] void fail(std::string_view problem) const;
  char peek();
  void open(char bracket, std::string_view expected);
  bool has_next(char bracket, bool first);
  const std::string& read_key(std::unordered_set<std::string>& keys);
  void read_escaped(std::string& result);
  char32_t read_code_unit();
  std::size_t skip_digits();
  std::string_view number();
  void skip(int depth);

  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0;
};

/// Throws as JsonReader does unless the text is JSON, nested at most 64 deep: for texts that are
/// then left to a library which would take any.
void check_json(std::string_view text, std::string name);

/// A text as a JSON string, in quotation marks and in ASCII. Throws std::invalid_argument for a
/// text that is not UTF-8.
std::string json_string(std::string_view text);

}  // namespace rowgrad
