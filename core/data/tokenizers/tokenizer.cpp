#include <optional>
#include <stdexcept>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3);  // a typical ratio; growth in steps would double the page faults
  SpecialTokenSearch search(text, options.allowed_special, vocabulary_);
  std::size_t begin = 0;
  while (const auto special = search.next(begin)) {
    append_ids(text.substr(begin, special->begin - begin), options.offset + begin, ids);
    ids.push_back(special->id);
    begin = special->end;
  }
  append_ids(text.substr(begin), options.offset + begin, ids);
  return ids;
}

void Tokenizer::save(const std::filesystem::path& path) const { write_file(path, to_json()); }

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token(id);
  return text;
}

// --- The file format -----------------------------------------------------------------------------
//
//   {"format": "rowgrad tokenizer", "version": 2, "type": "character" | "word" |
//    "lower-case word" | "whitespace word" | "lower-case whitespace word" | "byte pair",
//    "tokens": [in the order of ids], "special_ids": [ids of special tokens],
//    "merges": [in the order of ranks, "left right"; byte pair only],
//    "checksum": "16 digits"}
//
// The checksum (class Checksum) covers what to_json() writes before the key "checksum". When a file
// is read, its checksum is compared with the to_json() of the new tokenizer, so whitespace in the
// file does not matter. Version 1, written by rowgrad 0.2.0, has no checksum.
//
// Ordinary tokens and merges of byte-pair tokenizers are bytes, written by printable_from_bytes();
// all other tokens are text.

namespace {

constexpr std::string_view kFormat = "rowgrad tokenizer";
constexpr std::uint64_t kVersion = 2;

// --- Writing ---
// Returns a member of the JSON object: a list with one item per line, so that diffs are readable.
// `print` must return ASCII, so that all editors show the same text.

template <class Items, class Print>
std::string list(const char* name, const Items& items, const Print& print) {
  std::string text = concat(",\n \"", name, "\": [");
  for (const auto& item : items) text += "\n  " + print(item) + ',';
  if (!items.empty()) text.back() = '\n';
  return text + (items.empty() ? "]" : " ]");
}

std::string head(const char* type, const Vocabulary& vocabulary,
                 const std::vector<std::string>& tokens) {
  return concat("{\n \"format\": ", json_string(kFormat), ",\n \"version\": ", kVersion,
                ",\n \"type\": ", json_string(type), list("tokens", tokens, json_string),
                list("special_ids", vocabulary.special_ids(),
                     [](std::int32_t id) { return std::to_string(id); }));
}

std::string with_checksum(const std::string& text) {
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(text)));
  return concat(text, ",\n \"checksum\": \"", checksum_digits(sum.value()), "\"\n}\n");
}

std::string text_json(const char* type, const Vocabulary& vocabulary) {
  return with_checksum(head(type, vocabulary, vocabulary.tokens()));
}

std::string word_type(bool lower, bool whitespace_only) {
  return concat(lower ? "lower-case " : "", whitespace_only ? "whitespace " : "", "word");
}

// --- Reading ---

// The contents of a file, including keys that its type does not use.
struct Contents {
  std::string format, type, checksum;
  std::optional<std::uint64_t> version;
  std::optional<std::vector<std::string>> tokens, merges;
  std::optional<std::vector<std::uint64_t>> special_ids;

  explicit Contents(const Json& json) {
    if (const Json* found = json.find("format")) format = found->string();
    if (const Json* found = json.find("type")) type = found->string();
    if (const Json* found = json.find("checksum")) checksum = found->string();
    if (const Json* found = json.find("version")) version = found->whole_number();
    if (const Json* found = json.find("tokens")) tokens = found->strings();
    if (const Json* found = json.find("merges")) merges = found->strings();
    if (const Json* found = json.find("special_ids")) special_ids = found->whole_numbers();
    check_argument(format == kFormat, "not the JSON of a rowgrad tokenizer");
    check_argument(version == 1 || version == kVersion, "version is ",
                   version ? concat(*version) : "missing", ", expected 1 or ", kVersion);
  }
};

template <class List>
auto& required(std::optional<List>& list, const char* name) {
  check_argument(list.has_value(), "the list \"", name, "\" is missing");
  return *list;
}

// Returns the vocabulary of a file. Applies `decode` to each ordinary token.
Vocabulary vocabulary(Contents& contents, const auto& decode) {
  std::vector<std::string>& tokens = required(contents.tokens, "tokens");
  std::vector<std::int32_t> special_ids;
  std::vector<bool> is_special(tokens.size());
  for (const std::uint64_t id : required(contents.special_ids, "special_ids")) {
    check_argument(id < tokens.size(), "special id ", id, " is out of range: there are ",
                   tokens.size(), " tokens");
    special_ids.push_back(static_cast<std::int32_t>(id));
    is_special[id] = true;
  }
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (!is_special[id]) tokens[id] = decode(std::move(tokens[id]));
  return Vocabulary(std::move(tokens), special_ids);
}

Vocabulary text_vocabulary(Contents& contents) {
  return vocabulary(contents, [](std::string&& token) { return std::move(token); });
}

BytePairTokenizer byte_pair_tokenizer(Contents& contents) {
  Vocabulary tokens = vocabulary(contents, bytes_from_printable);
  MergeTable merges(tokens);
  for (const std::string& merge : required(contents.merges, "merges"))
    merges.add_line(merge, tokens);
  return BytePairTokenizer(std::move(tokens), std::move(merges));
}

std::unique_ptr<Tokenizer> tokenizer(Contents contents) {
  const std::string& type = contents.type;
  if (type == "character") return std::make_unique<CharacterTokenizer>(text_vocabulary(contents));
  if (type.ends_with("word"))
    for (const bool lower : {false, true})
      for (const bool whitespace_only : {false, true})
        if (type == word_type(lower, whitespace_only))
          return std::make_unique<WordTokenizer>(text_vocabulary(contents), lower, whitespace_only);
  if (type == "byte pair")
    return std::make_unique<BytePairTokenizer>(byte_pair_tokenizer(contents));
  throw std::invalid_argument(
      concat("unknown type ", in_quotes(type),
             ", expected \"character\", \"word\", \"lower-case word\", "
             "\"whitespace word\", \"lower-case whitespace word\" or \"byte pair\""));
}

}  // namespace

std::string CharacterTokenizer::to_json() const { return text_json("character", vocabulary()); }

std::string WordTokenizer::to_json() const {
  return text_json(word_type(lower(), whitespace_only()).c_str(), vocabulary());
}

std::string BytePairTokenizer::to_json() const {
  std::vector<std::string> tokens = vocabulary().tokens();
  for (std::string& token : tokens) token = printable_from_bytes(token);
  for (const std::int32_t id : vocabulary().special_ids()) {
    tokens[static_cast<std::size_t>(id)] = token(id);
  }
  return with_checksum(head("byte pair", vocabulary(), tokens) +
                       list("merges", merges(), [&](const MergeTable::Merge& merge) {
                         return json_string(printable_from_bytes(token(merge.left)) + ' ' +
                                            printable_from_bytes(token(merge.right)));
                       }));
}

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text) {
  try {
    Contents contents(Json(text, "tokenizer_from_json"));
    const std::string end = concat("\"checksum\": \"", contents.checksum, "\"\n}\n");
    const bool has_checksum = contents.version != 1 || !contents.checksum.empty();
    auto result = tokenizer(std::move(contents));
    check_argument(!has_checksum || result->to_json().ends_with(end),
                   "damaged or edited: the contents differ from the checksum; to keep an "
                   "edit, remove \"checksum\" and set \"version\" to 1");
    return result;
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
