#pragma once

// Reading JSON (RFC 8259) from untrusted files, and writing texts as JSON.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rowgrad {

/// A JSON text as a tree:
///
///   const Json json(text, "encoder.json");
///   for (const auto& [token, id] : json.members()) ids[token] = id.whole_number();
///
/// Functions that return a value throw std::runtime_error if it is of another kind
/// (`encoder.json, at "ab": expected a string`). Movable, not copyable.
class Json {
 public:
  using Members = std::map<std::string, Json, std::less<>>;  // of an object, sorted by key

  /// Parses a text with nlohmann/json; `name` stands for it in messages. Throws std::runtime_error
  /// for text that is not JSON or not UTF-8, values nested more than 64 deep, a number too large
  /// for a double, and a repeated key in an object (`encoder.json, byte 17: not valid JSON`).
  Json(std::string_view text, std::string name);

  Json() = default;  // null
  Json(const Json&) = delete;
  Json(Json&&) = default;
  Json& operator=(Json&&) = default;

  const Members& members() const;             // of an object
  const std::vector<Json>& elements() const;  // of an array
  const std::string& string() const;          // in UTF-8
  double number() const;                      // whole or not

  /// A number below 2^64 without sign, fraction or exponent.
  std::uint64_t whole_number() const;

  /// The member of an object, or null.
  const Json* find(std::string_view key) const;

  /// The elements of an array of strings or of whole numbers.
  std::vector<std::string> strings() const;
  std::vector<std::uint64_t> whole_numbers() const;

 private:
  class Parser;

  template <class Kind>
  const Kind& get(std::string_view expected) const;

  // Null and booleans, which nobody reads, are the first kind.
  std::variant<std::monostate, std::uint64_t, double, std::string, Members, std::vector<Json>>
      value_;
  std::shared_ptr<const std::string> name_;  // of the text
  const std::string* key_ = nullptr;         // of the innermost member that this is or is in
};

/// A text as a JSON string, in quotation marks and in ASCII. Throws std::invalid_argument for a
/// text that is not UTF-8.
std::string json_string(std::string_view text);

}  // namespace rowgrad
