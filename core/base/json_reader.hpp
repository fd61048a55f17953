#pragma once

// Reading JSON (RFC 8259) from untrusted files, and writing texts as JSON.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace rowgrad {

/// Reads a JSON text of the structure that the caller expects, one value after another:
///
///   JsonReader json(text, "encoder.json");
///   json.object([&](const std::string& key) { ids[key] = json.whole_number(); });
///
/// The constructor parses the whole text with nlohmann/json. It throws std::runtime_error for text
/// that is not JSON or not UTF-8, values nested more than 64 deep, a number too large for a double,
/// and a repeated key in an object (`encoder.json, byte 17: not valid JSON`). The other functions
/// throw it for a value of another kind than they read (`encoder.json, at "ab": expected a
/// string`). Neither copyable nor movable.
class JsonReader {
 public:
  /// `text` is used only during construction; `name` stands for it in messages.
  JsonReader(std::string_view text, std::string name);
  ~JsonReader();

  /// Reads an object. `member(key)` is called for each member and must read or skip its value.
  void object(const std::function<void(const std::string& key)>& member);

  /// Reads an array. `element()` is called for each value in it and must read or skip it.
  void array(const std::function<void()>& element);

  std::string string();

  /// A number below 2^64 without sign, fraction or exponent.
  std::uint64_t whole_number();

  double number();

  /// Skips a value of any kind.
  void skip();

 private:
  class Tokens;

  template <class Kind>
  Kind& take(std::string_view expected);
  bool ended();

  const std::string name_;
  const std::unique_ptr<Tokens> tokens_;
  std::size_t next_ = 0;              // the index of the next token
  const std::string* key_ = nullptr;  // of the innermost member that is being read
};

/// Throws what JsonReader's constructor throws. For texts that are then passed to a library without
/// such checks.
void check_json(std::string_view text, std::string name);

/// A text as a JSON string, in quotation marks and in ASCII. Throws std::invalid_argument for a
/// text that is not UTF-8.
std::string json_string(std::string_view text);

}  // namespace rowgrad
