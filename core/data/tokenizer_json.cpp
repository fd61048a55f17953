// The file format of tokenizers, written and read in one place:
//
//   {"format": "rowgrad tokenizer", "version": 1, "type": "character" | "word" | "byte pair",
//    "tokens": [in the order of ids], "special_ids": [ids of the special ones],
//    "merges": [in the order of ranks, "left right"; byte pair only]}
//
// Ordinary tokens and merges of byte pairs are bytes, written as byte_text.hpp says; all other
// tokens are text.

#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <rowgrad/core/data/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/byte_text.hpp>
#include <rowgrad/core/data/character_tokenizer.hpp>
#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/data/word_tokenizer.hpp>
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "rowgrad tokenizer";
constexpr int kVersion = 1;

Json head(const char* type, const Vocabulary& vocabulary) {
  return {{"format", kFormat},
          {"version", kVersion},
          {"type", type},
          {"tokens", vocabulary.tokens()},
          {"special_ids", vocabulary.special_ids()}};
}

// A token a line, so that two files can be compared; ASCII, so that any editor shows them alike.
std::string print(const Json& json) { return json.dump(1, ' ', true) + "\n"; }

const Json& list(const Json& json, const char* name) {
  check_argument(json.contains(name) && json[name].is_array(), "it lacks the list \"", name, "\"");
  return json[name];
}

std::vector<std::string> strings(const Json& json, const char* name) {
  std::vector<std::string> values;
  for (const Json& value : list(json, name)) {
    check_argument(value.is_string(), "\"", name, "\" holds ", value.dump(),
                   ", which is no string");
    values.push_back(value.get<std::string>());
  }
  return values;
}

std::vector<std::int32_t> special_ids(const Json& json, std::size_t tokens) {
  std::vector<std::int32_t> ids;
  for (const Json& value : list(json, "special_ids")) {
    check_argument(value.is_number_unsigned() && value.get<std::uint64_t>() < tokens,
                   "the special id ", value.dump(), " is none of the ", tokens, " tokens");
    ids.push_back(value.get<std::int32_t>());
  }
  return ids;
}

Vocabulary text_vocabulary(const Json& json) {
  std::vector<std::string> tokens = strings(json, "tokens");
  const std::vector<std::int32_t> special = special_ids(json, tokens.size());
  return Vocabulary(std::move(tokens), special);
}

BytePairTokenizer byte_pair_tokenizer(const Json& json) {
  std::vector<std::string> tokens = strings(json, "tokens");
  const std::vector<std::int32_t> special = special_ids(json, tokens.size());
  std::vector<bool> is_special(tokens.size());
  for (const std::int32_t id : special) is_special[static_cast<std::size_t>(id)] = true;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!is_special[id]) tokens[id] = bytes_from_printable(tokens[id]);
  }
  Vocabulary vocabulary(std::move(tokens), special);
  MergeTable merges(vocabulary);
  for (const std::string& merge : strings(json, "merges")) {
    const std::size_t blank = merge.find(' ');
    check_argument(blank != std::string::npos, "the merge ", in_quotes(merge), " has no blank");
    merges.add(bytes_from_printable(std::string_view(merge).substr(0, blank)),
               bytes_from_printable(std::string_view(merge).substr(blank + 1)), vocabulary);
  }
  return BytePairTokenizer(std::move(vocabulary), std::move(merges));
}

std::unique_ptr<Tokenizer> tokenizer(const Json& json) {
  check_argument(json.is_object() && json.value("format", Json()) == kFormat,
                 "it is not the JSON of a tokenizer");
  check_argument(json.value("version", Json()) == kVersion, "it is not of version ", kVersion);
  const Json type = json.value("type", Json());
  if (type == "character") return std::make_unique<CharacterTokenizer>(text_vocabulary(json));
  if (type == "word") return std::make_unique<WordTokenizer>(text_vocabulary(json));
  if (type == "byte pair") return std::make_unique<BytePairTokenizer>(byte_pair_tokenizer(json));
  throw std::invalid_argument(concat("the type ", type.dump(), " is unknown"));
}

}  // namespace

std::string CharacterTokenizer::to_json() const { return print(head("character", vocabulary())); }

std::string WordTokenizer::to_json() const { return print(head("word", vocabulary())); }

std::string BytePairTokenizer::to_json() const {
  std::vector<std::string> tokens = vocabulary().tokens();
  for (std::string& token : tokens) token = printable_from_bytes(token);
  for (const std::int32_t id : vocabulary().special_ids()) {
    tokens[static_cast<std::size_t>(id)] = token(id);
  }
  Json merge_list = Json::array();
  for (const MergeTable::Merge& merge : merges()) {
    merge_list.push_back(printable_from_bytes(token(merge.left)) + ' ' +
                         printable_from_bytes(token(merge.right)));
  }
  return print({{"format", kFormat},
                {"version", kVersion},
                {"type", "byte pair"},
                {"tokens", std::move(tokens)},
                {"special_ids", vocabulary().special_ids()},
                {"merges", std::move(merge_list)}});
}

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text) {
  try {
    return tokenizer(Json::parse(text));
  } catch (const Json::exception& error) {
    throw std::runtime_error(concat("tokenizer_from_json: ", error.what()));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(concat("tokenizer_from_json: ", error.what()));
  }
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return tokenizer_from_json(text);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(concat(path.string(), ": ", error.what()));
  }
}

}  // namespace rowgrad
