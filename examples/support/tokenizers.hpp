#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/tokenizer.hpp>

namespace rowgrad {

/// The values of the programs' option --tokenizer.
inline const std::vector<std::string> kTokenizerNames{"word", "char", "gpt2", "bpe"};

/// The tokenizer of that name, made from the text, or for gpt2 from GPT-2's files. `vocabulary` is
/// the number of ids to train for bpe. Throws std::invalid_argument for any other name.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::string_view text,
                                          std::size_t vocabulary);

/// A token for display in a table: in quotes, with line ends and control characters as \n and \x0b.
std::string readable_token(std::string_view token);

}  // namespace rowgrad
