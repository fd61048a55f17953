// Compares Json with nlohmann/json. Both must accept the same strings, with the same values, except
// for strings that only Json rejects.

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/base/json.hpp>

namespace rowgrad::fuzzing {
namespace {

using nlohmann::json;

void expect_same(const Json& found, const json& expected) {
  if (expected.is_object()) {
    expect(found.members().size() == expected.size(), "wrong number of members");
    for (const auto& [key, value] : found.members()) {
      expect(expected.contains(key), "wrong key");
      expect_same(value, expected.at(key));
    }
  } else if (expected.is_array()) {
    expect(found.elements().size() == expected.size(), "wrong number of elements");
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_same(found.elements()[i], expected.at(i));
  } else if (expected.is_string()) {
    const std::string& text = found.string();
    expect(text == expected.get<std::string>(), "wrong string");
    expect(Json(json_string(text), "string").string() == text, "wrong string when written");
  } else if (expected.is_number_unsigned()) {
    expect(found.whole_number() == expected.get<std::uint64_t>(), "wrong number");
  }
}

// Returns true if Json may reject the input although nlohmann/json accepts it.
bool may_differ(std::string_view input, const std::string& refusal) {
  return input.find('\0') != std::string_view::npos ||  // ends the input for nlohmann/json
         refusal.find("duplicate key") != std::string::npos ||
         refusal.find("nested more than") != std::string::npos;
}

}  // namespace

void fuzz_json(std::string_view input) {
  std::string written;
  const auto refusal = refusal_of(input, [&] { written = Json(input, "input").dump(); });
  if (refusal && may_differ(input, *refusal)) return;
  try {
    const json expected = json::parse(input);
    expect(!refusal, "rejected valid JSON");
    expect_same(Json(input, "input"), expected);
    expect(json::parse(written) == expected, "wrong values when written");
  } catch (const json::exception&) {
    expect(refusal.has_value(), "accepted invalid JSON");
  }
}

}  // namespace rowgrad::fuzzing
