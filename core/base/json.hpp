#pragma once

// JSON (RFC 8259): read from untrusted files, and written.

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

/// A JSON text as a tree:
///
///   const Json json(text, "encoder.json");
///   for (const auto& [token, id] : json.members()) ids[token] = id.whole_number();
///
///   Json run{{"steps", 7}, {"losses", losses}};
///   write_file("run.json", run.dump());
///
/// Functions that return a value throw std::runtime_error if it is of another kind: of values that
/// were read, `encoder.json, at "ab": expected a string`; of values that a program built,
/// `JSON value: expected a string`. Movable, not copyable.
class Json {
 public:
  using Members = std::map<std::string, Json, std::less<>>;  // of an object, sorted by key

  /// Parses a text with nlohmann/json; `name` stands for it in messages. Throws std::runtime_error
  /// for text that is not JSON or not UTF-8, values nested more than 64 deep, a number too large
  /// for a double, and a repeated key in an object (`encoder.json, byte 17: not valid JSON`).
  Json(std::string_view text, std::string name);

  /// Of a value, where null stands for none.
  Json() = default;
  Json(bool value) : value_(value) {}
  Json(double number) : value_(number) {}
  Json(std::integral auto number) : value_(static_cast<std::uint64_t>(number)) {
    if (!std::in_range<std::uint64_t>(number)) value_ = static_cast<std::int64_t>(number);
  }
  Json(std::string text) : value_(std::move(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(const void*) = delete;  // or it would be true
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

  const Members& members() const;             // of an object
  const std::vector<Json>& elements() const;  // of an array
  const std::string& string() const;          // in UTF-8
  double number() const;                      // whole or not
  bool boolean() const;                       // true or false

  /// A number below 2^64 without sign, fraction or exponent.
  std::uint64_t whole_number() const;

  /// The member of an object, or null.
  const Json* find(std::string_view key) const;

  /// The elements of an array of strings or of whole numbers.
  std::vector<std::string> strings() const;
  std::vector<std::uint64_t> whole_numbers() const;

  /// The member of an object, which is made if it is not there. Null becomes an object; for others
  /// this throws std::invalid_argument.
  Json& operator[](const std::string& key);

  /// Adds an element to an array. Null becomes an array; for others this throws
  /// std::invalid_argument.
  void push_back(Json element);

  /// The text: in one line, or with `indent` blanks in front of what is one level deeper. Bytes
  /// that are not UTF-8 are replaced, and numbers that are not finite are null.
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
  std::shared_ptr<const std::string> name_;  // of the text; null for a value that was built
  std::shared_ptr<const std::string> key_;  // of the innermost member that this is or is in, if any
};

/// A member of an object that is made.
struct Json::Member {
  std::string key;     // its name
  mutable Json value;  // moved into the object
};

/// A text as a JSON string, in quotation marks and in ASCII. Throws std::invalid_argument for a
/// text that is not UTF-8.
std::string json_string(std::string_view text);

}  // namespace rowgrad
