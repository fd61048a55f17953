#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/rowgrad/options/options.hpp>

namespace rowgrad {

/// Returns true if a tokenizer of this name is made from a text.
bool is_made_from_text(const std::string& tokenizer);

/// Returns the path of a tokenizer that is a file, or "" for a name.
std::string tokenizer_file(const std::string& tokenizer);

/// Makes a tokenizer from the text or, for gpt2, from GPT-2's files, or reads it from a file.
/// `vocabulary` is the number of ids to train for bpe. Throws std::runtime_error like
/// load_tokenizer.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& tokenizer, std::string_view text,
                                          std::size_t vocabulary, const WordOptions& words = {});

/// Returns a token for a table: in quotes, with line ends and control characters as \n and \x0b.
std::string readable_token(std::string_view token);

}  // namespace rowgrad
