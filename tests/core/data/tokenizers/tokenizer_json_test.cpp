#include "tests/test.hpp"
#include <rowgrad/core/base/hash.hpp>

namespace {

// Returns one tokenizer of each type, with special tokens and, for byte pairs, tokens that are not
// UTF-8.
std::vector<std::unique_ptr<Tokenizer>> examples() {
  const std::string text = "Übung macht den Meister; \"世界\" und\n世界!";
  std::vector<std::unique_ptr<Tokenizer>> result;
  result.push_back(std::make_unique<CharacterTokenizer>(
      CharacterTokenizer::from_text(text, {.special_tokens = {std::string(kUnknown)}})));
  result.push_back(std::make_unique<WordTokenizer>(WordTokenizer::from_text(text)));
  result.push_back(std::make_unique<BytePairTokenizer>(
      BytePairTokenizer::train(text + text, {.size = 280, .special_tokens = {"<ü>"}})));
  return result;
}

TEST(TokenizerJson, RestoresTheSameTokenizer) {
  const TemporaryFolder folder;
  for (const auto& tokenizer : examples()) {
    const std::string text = tokenizer->to_json();
    EXPECT_TRUE(std::ranges::all_of(text, [](char byte) { return byte > 0; })) << "not ASCII";
    tokenizer->save(folder / "tokenizer.json");
    for (const auto& again :
         {tokenizer_from_json(text), load_tokenizer(folder / "tokenizer.json")}) {
      EXPECT_EQ(again->to_json(), text);
      EXPECT_EQ(again->vocabulary().tokens(), tokenizer->vocabulary().tokens());
      EXPECT_EQ(again->vocabulary().special_ids(), tokenizer->vocabulary().special_ids());
      const std::string sample = "Meister macht Übung \n世界";
      EXPECT_EQ(values(again->encode(sample)), values(tokenizer->encode(sample)));
    }
  }
}

TEST(TokenizerJson, IsHumanReadable) {
  const std::string text =
      "{\n"
      " \"format\": \"rowgrad tokenizer\",\n"
      " \"version\": 2,\n"
      " \"type\": \"character\",\n"
      " \"tokens\": [\n"
      "  \"b\",\n"
      "  \"\\u00e9\",\n"
      "  \"<s>\"\n"
      " ],\n"
      " \"special_ids\": [\n"
      "  2\n"
      " ]";
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(text)));
  EXPECT_EQ(CharacterTokenizer::from_text("bé", {.special_tokens = {"<s>"}}).to_json(),
            text + ",\n \"checksum\": \"" + checksum_digits(sum.value()) + "\"\n}\n");
  const json pairs = json::parse(BytePairTokenizer::train(" a a a", {.size = 258}).to_json());
  EXPECT_EQ(pairs["tokens"][0], "Ā");
  EXPECT_EQ(pairs["tokens"][256], "Ġa");
  EXPECT_EQ(pairs["merges"], json({"Ġ a"}));
}

TEST(TokenizerJson, RejectsForeignJson) {
  const std::string start = R"({"format": "rowgrad tokenizer", "version": )";
  const std::string types = R"(, expected "character", "word", "lower-case word", "whitespace )"
                            R"(word", "lower-case whitespace word" or "byte pair")";
  for (const auto& item : std::map<std::string, std::string>{
           {"", ", byte 0: not valid JSON"},
           {"[]", ": expected an object"},
           {"{}", ": not the JSON of a rowgrad tokenizer"},
           {R"({"model": {"type": "BPE"}})", ": not the JSON of a rowgrad tokenizer"},
           {R"({"format": 3})", ", at \"format\": expected a string"},
           {start + "3}", ": version is 3, expected 1 or 2"},
           {start + "1}", ": unknown type \"\"" + types},
           {start + R"(1, "type": "x"})", ": unknown type \"x\"" + types},
           {start + R"(1, "type": "word"})", ": the list \"tokens\" is missing"},
           {R"({"tokens": [7]})", ", at \"tokens\": expected a string"},
           {R"({"tokens": "a"})", ", at \"tokens\": expected an array"},
           {R"({"special_ids": [-1]})", ", at \"special_ids\": expected a whole number below 2^64"},
           {R"({"merges": {}})", ", at \"merges\": expected an array"},
           {R"({"version": "1"})", ", at \"version\": expected a whole number below 2^64"},
           {R"({"type": []})", ", at \"type\": expected a string"},
       })
    EXPECT_ERROR(std::runtime_error, "tokenizer_from_json" + item.second,
                 tokenizer_from_json(item.first));
}

TEST(TokenizerJson, RejectsContradictoryContents) {
  const json characters = json::parse(examples()[0]->to_json());
  const json pairs = json::parse(examples()[2]->to_json());
  struct Case {
    const json& original;
    json patch;  // JSON Patch (RFC 6902)
    std::string message;
  };
  const std::vector<Case> cases = {
      {characters, R"([{"op": "replace", "path": "/tokens/0", "value": "ab"}])"_json,
       "CharacterTokenizer: token 0 is \"ab\", expected exactly one character"},
      {characters, R"([{"op": "remove", "path": "/special_ids"}])"_json,
       "the list \"special_ids\" is missing"},
      {characters, R"([{"op": "replace", "path": "/special_ids/0", "value": 4294967299}])"_json,
       "special id 4294967299 is out of range: there are 24 tokens"},
      {pairs, R"([{"op": "replace", "path": "/tokens/3", "value": "世"}])"_json,
       "\"世\" has a character that does not represent a byte"},
      {pairs, R"([{"op": "remove", "path": "/tokens/3"}])"_json,
       "special id 279 is out of range: there are 279 tokens"},
      {pairs, R"([{"op": "remove", "path": "/merges"}])"_json, "the list \"merges\" is missing"},
      {pairs, R"([{"op": "replace", "path": "/merges/0", "value": "ab"}])"_json,
       "\"ab\": expected two tokens with one space between them"},
  };
  for (const Case& c : cases)
    EXPECT_ERROR(std::runtime_error, "tokenizer_from_json: " + c.message,
                 tokenizer_from_json(c.original.patch(c.patch).dump()));
}

TEST(TokenizerJson, IsVerifiedFromVersion2On) {
  const std::string damage =
      "tokenizer_from_json: damaged or edited: the contents differ from the checksum; to keep an "
      "edit, remove \"checksum\" and set \"version\" to 1";
  for (const auto& tokenizer : examples()) {
    json file = json::parse(tokenizer->to_json());
    EXPECT_EQ(tokenizer_from_json(file.dump())->to_json(), tokenizer->to_json());
    json edited = file;
    std::swap(edited["tokens"][0], edited["tokens"][1]);
    EXPECT_ERROR(std::runtime_error, damage, tokenizer_from_json(edited.dump()));
    edited["version"] = 1;
    EXPECT_ERROR(std::runtime_error, damage, tokenizer_from_json(edited.dump()));
    file.erase("checksum");
    EXPECT_ERROR(std::runtime_error, damage, tokenizer_from_json(file.dump()));
    file["version"] = 1;
    EXPECT_EQ(tokenizer_from_json(file.dump())->to_json(), tokenizer->to_json());
  }
}

TEST(TokenizerJson, QuotesOnlyPartOfALongString) {
  const std::string name(1'000'000, 'x');
  const std::string start = R"({"format": "rowgrad tokenizer", "version": 1, "type": )";
  for (const std::string& text :
       {"{\"format\": \"" + name + "\"}", start + "\"" + name + "\"}",
        start + "\"character\", \"special_ids\": [], \"tokens\": [\"" + name + "\"]}",
        start + "\"byte pair\", \"special_ids\": [], \"tokens\": [\"" + name + "世\"]}"})
    EXPECT_LT(error_of<std::runtime_error>([&] { tokenizer_from_json(text); }).size(), 250u);
}

TEST(TokenizerJson, NamesTheRejectedFile) {
  const TemporaryFolder folder;
  write_file(folder / "foreign.json", "{}");
  EXPECT_ERROR(std::runtime_error,
               (folder / "foreign.json").string() +
                   ": tokenizer_from_json: not the JSON of a rowgrad tokenizer",
               load_tokenizer(folder / "foreign.json"));
  EXPECT_ERROR_WITH(std::runtime_error, "none.json", load_tokenizer(folder / "none.json"));
}

}  // namespace
