#pragma once

// JSON (RFC 8259) from files that nobody vouches for, and texts into JSON.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace rowgrad {

/// Reads a JSON text in the shape that the caller expects, one value after another:
///
///   JsonReader json(text, "encoder.json");
///   json.object([&](const std::string& key) { ids[key] = json.whole_number(); });
///
/// nlohmann/json takes the whole text apart before anything is read. Everything throws
/// std::runtime_error: the constructor for text that is not JSON or not UTF-8, for values nested
/// more than 64 deep, a number that no double holds and an object with a key twice
/// (`encoder.json, byte 17: not valid JSON`), the other functions for a value of another kind than
/// they read (`encoder.json, at "ab": expected a string`). Is neither copied nor moved.
class JsonReader {
 public:
  /// `text` is only needed here; `name` is what messages call it.
  JsonReader(std::string_view text, std::string name);
  ~JsonReader();

  /// Reads an object. `member(key)` is called for each member, to read or skip its value.
  void object(const std::function<void(const std::string& key)>& member);

  /// Reads an array. `element()` is called for each value in it, to read or skip it.
  void array(const std::function<void()>& element);

  std::string string();

  /// A number below 2^64 without sign, fraction and exponent.
  std::uint64_t whole_number();

  /// Passes a value of any kind.
  void skip();

 private:
  class Tokens;

  template <class Kind>
  Kind& take(std::string_view expected);
  bool ended();

  const std::string name_;
  const std::unique_ptr<Tokens> tokens_;
  std::size_t next_ = 0;              // the token that comes next
  const std::string* key_ = nullptr;  // of the innermost member that is being read
};

/// Throws as JsonReader's constructor does: for texts that are then left to a library which would
/// take any.
void check_json(std::string_view text, std::string name);

/// A text as a JSON string, in quotation marks and in ASCII. Throws std::invalid_argument for a
/// text that is not UTF-8.
std::string json_string(std::string_view text);

}  // namespace rowgrad
