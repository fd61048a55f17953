#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/rowgrad/options/options.hpp>

namespace rowgrad {

/// Returns true if this value of --tokenizer means a tokenizer that is trained on text.
bool is_made_from_text(const std::string& tokenizer);

/// Returns the path if `tokenizer` is a file, or "" if it is a name.
std::string tokenizer_file(const std::string& tokenizer);

/// Trains a tokenizer on the text, makes GPT-2's from its files, or reads a file. `vocabulary` is
/// the vocabulary size for bpe. Throws std::runtime_error like load_tokenizer.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& tokenizer, std::string_view text,
                                          std::size_t vocabulary, const WordOptions& words = {});

/// Returns a token for printing: in quotes, with line ends and control characters as \n and \x0b.
std::string readable_token(std::string_view token);

}  // namespace rowgrad
