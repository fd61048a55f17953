#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <rowgrad/core/data/byte_text.hpp>
#include <rowgrad/core/data/gpt2_files.hpp>
#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

// Collects the entries of an object of numbers without building a tree of them, which would take
// most of the time of loading.
class EncoderEntries final : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Entry {
    std::string token;
    std::size_t id;
  };
  std::vector<Entry> entries;

  bool start_object(std::size_t) override {
    check_argument(!std::exchange(inside_, true), kExpected);
    return true;
  }
  bool key(std::string& token) override {
    entries.push_back({std::move(token), 0});
    return true;
  }
  bool number_unsigned(std::uint64_t id) override {
    check_argument(inside_, kExpected);
    entries.back().id = id;
    return true;
  }
  bool end_object() override { return true; }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    throw std::invalid_argument(error.what());
  }

  bool null() override { return refuse(); }
  bool boolean(bool) override { return refuse(); }
  bool number_integer(std::int64_t) override { return refuse(); }
  bool number_float(double, const std::string&) override { return refuse(); }
  bool string(std::string&) override { return refuse(); }
  bool binary(binary_t&) override { return refuse(); }
  bool start_array(std::size_t) override { return refuse(); }
  bool end_array() override { return refuse(); }

 private:
  static constexpr const char* kExpected = "it is not one object of tokens and their ids";

  static bool refuse() { throw std::invalid_argument(kExpected); }

  bool inside_ = false;
};

Vocabulary parse_encoder(const std::string& text, const std::vector<std::string>& special_tokens) {
  EncoderEntries encoder;
  nlohmann::json::sax_parse(text, &encoder);
  const std::size_t size = encoder.entries.size();
  std::vector<std::string> tokens(size);
  std::vector<std::int32_t> special_ids;
  // Each id is below the number of tokens and none is taken twice, so there is no gap either.
  for (auto& [token, id] : encoder.entries) {
    check_argument(!token.empty(), "the token of id ", id, " is empty");
    check_argument(id < size, in_quotes(token), " has id ", id, ", but there are ", size,
                   " tokens");
    check_argument(tokens[id].empty(), in_quotes(token), " and another token have the same id ",
                   id);
    const bool special = std::ranges::find(special_tokens, token) != special_tokens.end();
    if (special) special_ids.push_back(static_cast<std::int32_t>(id));
    tokens[id] = special ? std::move(token) : bytes_from_printable(token);
  }
  Vocabulary vocabulary(std::move(tokens), special_ids);
  for (const std::string& token : special_tokens) {
    check_argument(vocabulary.find_special(token).has_value(), "the special token ",
                   in_quotes(token), " is not in it");
  }
  return vocabulary;
}

void add_merge(std::string_view line, const Vocabulary& vocabulary, MergeTable& merges) {
  const std::size_t blank = line.find(' ');
  check_argument(blank != std::string_view::npos && line.find(' ', blank + 1) == line.npos,
                 in_quotes(line), " is not two tokens with one blank between them");
  merges.add(bytes_from_printable(line.substr(0, blank)),
             bytes_from_printable(line.substr(blank + 1)), vocabulary);
}

MergeTable parse_merges(std::string_view text, const std::string& file,
                        const Vocabulary& vocabulary) {
  MergeTable merges(vocabulary);
  std::size_t line_number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line_number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    try {
      if (line_number == 1) {
        check_argument(line.starts_with("#version:"), "it does not begin with #version:");
      } else {
        add_merge(line, vocabulary, merges);
      }
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(concat(file, ", line ", line_number, ": ", error.what()));
    }
  }
  check_runtime(line_number > 1, file, " is empty");
  return merges;
}

}  // namespace

BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens) {
  try {
    Vocabulary vocabulary = parse_encoder(encoder_json.contents, special_tokens);
    MergeTable merges = parse_merges(vocab_bpe.contents, vocab_bpe.name, vocabulary);
    return BytePairTokenizer(std::move(vocabulary), std::move(merges));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(concat(encoder_json.name, ": ", error.what()));
  }
}

BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens) {
  // One after the other: as arguments, a compiler may read them in either order.
  const NamedText merges{vocab_bpe.string(), read_file(vocab_bpe)};
  const NamedText ids{encoder_json.string(), read_file(encoder_json)};
  return gpt2_tokenizer(merges, ids, special_tokens);
}

}  // namespace rowgrad
