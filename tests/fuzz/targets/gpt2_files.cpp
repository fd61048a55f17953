// Fuzzes GPT-2's two files. An input is vocab.bpe, a zero byte, and encoder.json. In encoder.json,
// `@,` stands for the members of all 256 bytes, which a valid file needs.

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad::fuzzing {
namespace {

std::string byte_members() {
  std::string members;
  for (int byte = 0; byte < 256; ++byte)
    members += json_string(printable_from_bytes(std::string(1, static_cast<char>(byte)))) + ':' +
               std::to_string(byte) + ',';
  return members;
}

}  // namespace

void fuzz_gpt2_files(std::string_view input) {
  static const std::string bytes = byte_members();
  const std::size_t end = std::min(input.find('\0'), input.size());
  const NamedText merges{"vocab.bpe", std::string(input.substr(0, end))};
  NamedText encoder{"encoder.json", std::string(input.substr(std::min(end + 1, input.size())))};
  if (const std::size_t place = encoder.contents.find("@,"); place != std::string::npos)
    encoder.contents.replace(place, 2, bytes);

  const std::string both = merges.contents + encoder.contents;
  std::optional<BytePairTokenizer> tokenizer;
  if (refusal_of(both, [&] { tokenizer.emplace(gpt2_tokenizer(merges, encoder, {"<s>"})); }))
    return;
  const auto ids = tokenizer->encode(both, {.allowed_special = {"<s>"}});
  expect(tokenizer->decode(ids) == both, "wrong text");
  const std::string json = tokenizer->to_json();
  const auto again = tokenizer_from_json(json);
  expect(again->to_json() == json, "wrong tokenizer");
  expect(again->encode(both, {.allowed_special = {"<s>"}}) == ids, "wrong ids");
}

}  // namespace rowgrad::fuzzing
