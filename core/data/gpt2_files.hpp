#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <rowgrad/core/data/byte_pair_tokenizer.hpp>

namespace rowgrad {

/// A file's contents, and the name that messages call it by.
struct NamedText {
  std::string name;
  std::string contents;
};

/// GPT-2's tokenizer from the two files it is published as. `vocab_bpe` has a line `#version: …`
/// and then a merge a line, `Ġ t`, in the order of ranks; `encoder_json` is one object of tokens
/// and their ids. Both write bytes as byte_text.hpp does. The ids must be 0, 1, 2 … without a gap,
/// each of a byte, of a token that a merge makes, or of one of `special_tokens`, all of which must
/// occur. Throws std::runtime_error for anything else, with the name and, for vocab_bpe, the line.
BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens = {
                                     std::string(kEndOfText)});

/// The same from paths; also throws where a file cannot be read.
BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens = {
                                          std::string(kEndOfText)});

}  // namespace rowgrad
