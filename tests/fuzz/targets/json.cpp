// Compares JsonReader, which reads all JSON, with the tree that nlohmann/json makes of a text: both
// must accept the same texts, except for what only the reader refuses, with the same values.

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/base/json_reader.hpp>

namespace rowgrad::fuzzing {
namespace {

using nlohmann::json;

void expect_same(JsonReader& reader, const json& expected) {
  if (expected.is_object()) {
    std::size_t members = 0;
    reader.object([&](const std::string& key) {
      expect(expected.contains(key), "another key");
      expect_same(reader, expected.at(key));
      ++members;
    });
    expect(members == expected.size(), "another number of members");
  } else if (expected.is_array()) {
    std::size_t elements = 0;
    reader.array([&] { expect_same(reader, expected.at(elements++)); });
    expect(elements == expected.size(), "another number of elements");
  } else if (expected.is_string()) {
    const std::string text = reader.string();
    expect(text == expected.get<std::string>(), "another string");
    expect(JsonReader(json_string(text), "string").string() == text, "another string when written");
  } else if (expected.is_number_unsigned()) {
    expect(reader.whole_number() == expected.get<std::uint64_t>(), "another number");
  } else {
    reader.skip();
  }
}

// What only the reader refuses.
bool may_differ(std::string_view input, const std::string& refusal) {
  return input.find('\0') != std::string_view::npos ||  // ends the input of the library
         refusal.find("is there twice") != std::string::npos ||
         refusal.find("nested too deep") != std::string::npos;
}

}  // namespace

void run(std::string_view input) {
  const auto refusal = refusal_of(input, [&] {
    JsonReader reader(input, "input");
    reader.skip();
  });
  if (refusal && may_differ(input, *refusal)) return;
  try {
    const json expected = json::parse(input);
    expect(!refusal, "refused what is JSON");
    JsonReader reader(input, "input");
    expect_same(reader, expected);
  } catch (const json::exception&) {
    expect(refusal.has_value(), "took what is not JSON");
  }
}

}  // namespace rowgrad::fuzzing
