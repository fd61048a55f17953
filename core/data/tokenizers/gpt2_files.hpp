#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>

namespace rowgrad {

/// The contents of a file, and its name in messages.
struct NamedText {
  std::string name;
  std::string contents;
};

/// GPT-2's tokenizer from its two published files. `vocab_bpe` has a line `#version: …` and then
/// one merge per line, such as `Ġ t`, in the order of ranks; `encoder_json` is one object of tokens
/// and their ids. Both write bytes as in byte_text.hpp. The ids must be 0, 1, 2 … without gaps, and
/// each token must be a byte, made by a merge, or one of `special_tokens`, all of which must occur.
/// Otherwise throws std::runtime_error with the file's name and, for vocab_bpe, the line.
BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens = {
                                     std::string(kEndOfText)});

/// The same from paths; also throws if a file cannot be read.
BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens = {
                                          std::string(kEndOfText)});

}  // namespace rowgrad
