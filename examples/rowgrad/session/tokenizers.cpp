#include <algorithm>
#include <array>
#include <cstdio>

#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad {

bool is_made_from_text(const std::string& tokenizer) {
  return tokenizer_file(tokenizer).empty() && tokenizer != "gpt2";
}

std::string tokenizer_file(const std::string& tokenizer) {
  const bool is_name =
      std::find(kTokenizerNames.begin(), kTokenizerNames.end(), tokenizer) != kTokenizerNames.end();
  return is_name ? "" : tokenizer;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& tokenizer, std::string_view text,
                                          std::size_t vocabulary, const WordOptions& words) {
  if (tokenizer == "char")
    return std::make_unique<CharacterTokenizer>(CharacterTokenizer::from_text(text));
  if (tokenizer == "word" || tokenizer == "whitespace") {
    WordOptions options = words;
    options.whitespace_only = tokenizer == "whitespace";
    return std::make_unique<WordTokenizer>(WordTokenizer::from_text(text, options));
  }
  if (tokenizer == "bpe")
    return std::make_unique<BytePairTokenizer>(
        BytePairTokenizer::train(text, {.size = vocabulary}));
  if (tokenizer != "gpt2") return load_tokenizer(tokenizer);
  const Gpt2Files files = find_gpt2_files();
  return std::make_unique<BytePairTokenizer>(
      gpt2_tokenizer({files.merges.source, files.merges.contents},
                     {files.encoder.source, files.encoder.contents}));
}

std::string readable_token(std::string_view token) {
  std::string text = "'";
  for (const char c : token) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 5> code;
      std::snprintf(code.data(), code.size(), "\\x%02x", byte);
      text += code.data();
    } else {
      text += c;
    }
  }
  return text + "'";
}

}  // namespace rowgrad
