#pragma once

// Reading JSON (RFC 8259) from untrusted files, and writing it.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rowgrad {

/// A JSON value:
///
///   const Json json(text, "encoder.json");
///   for (const auto& [token, id] : json.members()) ids[token] = id.whole_number();
///
///   Json run{{"steps", 7}, {"losses", losses}};
///   write_file("run.json", run.dump());
///
/// Accessors throw std::runtime_error if the value has another type. If the value was parsed, the
/// message says where: `encoder.json, at "ab": expected a string`. Otherwise, the message is
/// `JSON value: expected a string`. Movable, not copyable.
class Json {
 public:
  using Members = std::map<std::string, Json, std::less<>>;  // members of an object, sorted by key

  /// Parses a string with nlohmann/json. Messages start with `name`. Throws std::runtime_error if
  /// the string is not JSON (`encoder.json, byte 17: not valid JSON`) or not UTF-8, for values
  /// nested more than 64 levels deep, numbers too large for a double and duplicate keys.
  Json(std::string_view text, std::string name);

  /// Converts a value to JSON. The default constructor and empty optionals give null.
  Json() = default;
  Json(bool value) : value_(value) {}
  Json(double number) : value_(number) {}
  Json(std::integral auto number) : value_(static_cast<std::uint64_t>(number)) {
    if (!std::in_range<std::uint64_t>(number)) value_ = static_cast<std::int64_t>(number);
  }
  Json(std::string text) : value_(std::move(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(const void*) = delete;  // would convert to true
  struct Member;
  Json(std::initializer_list<Member> members);
  template <class Value>
  Json(std::vector<Value> values)
      : value_(std::vector<Json>(std::move_iterator(values.begin()),
                                 std::move_iterator(values.end()))) {}
  template <class Value>
  Json(const std::optional<Value>& value) : Json(value ? Json(*value) : Json()) {}
  static Json array() { return std::vector<Json>(); }
  Json(const Json&) = delete;
  Json(Json&&) = default;
  Json& operator=(Json&&) = default;

  const Members& members() const;             // returns an object's members
  const std::vector<Json>& elements() const;  // returns an array's elements
  const std::string& string() const;          // returns a UTF-8 string
  double number() const;                      // returns a number
  bool boolean() const;                       // returns true or false

  /// Returns a number below 2^64 without sign, fraction or exponent.
  std::uint64_t whole_number() const;

  /// Returns an object's member with this key, or nullptr.
  const Json* find(std::string_view key) const;

  /// Returns an array of strings.
  std::vector<std::string> strings() const;

  /// Returns an array of whole numbers: see whole_number().
  std::vector<std::uint64_t> whole_numbers() const;

  /// Returns an object's member, created if missing. Null becomes an object.
  /// Throws std::invalid_argument for other values.
  Json& operator[](const std::string& key);

  /// Appends an element to an array. Null becomes an array. Throws std::invalid_argument for other
  /// values.
  void push_back(Json element);

  /// Formats the value as one line, or indented by `indent` spaces per level. Bytes that are not
  /// UTF-8 are replaced, and numbers that are not finite become null.
  std::string dump(int indent = -1) const;

 private:
  class Parser;

  template <class Kind>
  const Kind& get(std::string_view expected) const;
  template <class Tree>
  Tree tree() const;

  std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string, Members,
               std::vector<Json>>
      value_;
  std::shared_ptr<const std::string> name_;  // name of the parsed string; null if not parsed
  std::shared_ptr<const std::string> key_;   // key of the innermost enclosing member, if any
};

/// A key-value pair for building an object.
struct Json::Member {
  std::string key;     // name of the member
  mutable Json value;  // moved into the object
};

/// Formats `text` as a JSON string in ASCII, in quotation marks. Throws std::invalid_argument if it
/// is not UTF-8.
std::string json_string(std::string_view text);

}  // namespace rowgrad
