// Fuzzes tokenizers from JSON: a tokenizer that can be read is written and read again, and must
// encode without loss.

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad::fuzzing {

void fuzz_tokenizer_json(std::string_view input) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (refusal_of(input, [&] { tokenizer = tokenizer_from_json(input); })) return;
  const std::string json = tokenizer->to_json();
  expect(tokenizer_from_json(json)->to_json() == json, "wrong tokenizer");

  EncodeOptions options;
  for (const std::int32_t id : tokenizer->vocabulary().special_ids())
    options.allowed_special.push_back(tokenizer->token(id));
  const bool words = json.find("word\",\n \"tokens\"") != std::string::npos;
  try {
    const auto ids = tokenizer->encode(input, options);
    const std::string text = tokenizer->decode(ids);
    const bool unknown = tokenizer->vocabulary().find_special(kUnknown).has_value();
    expect(words || unknown || text == input, "wrong text");
  } catch (const std::invalid_argument&) {
    // The text has a part without an id, or is not UTF-8.
  }
}

}  // namespace rowgrad::fuzzing
