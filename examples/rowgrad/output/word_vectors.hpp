#pragma once

// The word vectors of a model: files for other programs, and nearest words. "Words" are the tokens
// of the model's tokenizer.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// Returns the table of a model's word vectors. All models of this program register it first.
Parameter& word_table(Layer& model);

/// The word vectors of a saved model.
struct WordVectorsOfRun {
  std::string table;  // "token.weight"
  std::unique_ptr<Tokenizer> tokenizer;
  Tensor vectors;  // [words, width]
};

/// Reads the word vectors of a checkpoint, or of a file written by save_gpt(), without creating the
/// model. Throws std::runtime_error for other files.
WordVectorsOfRun read_word_vectors(const std::filesystem::path& path);

/// Returns the files that write_word_vectors() writes, for check_outputs(); none if path is "".
std::vector<Output> outputs_of_vectors(const std::string& path);

/// Writes vectors [words, width]. A path that ends in .npy gets NumPy's format, version 1.0, and
/// the words are written to FILE.words.txt, one a line. Any other path gets word2vec's text format.
/// Its first line is "words width", and each further line has a word and its values, in digits that
/// restore them exactly. In both, ASCII white space, control characters and \ in words are \s, \n,
/// \t, \r, <0xNN> and \\.
void write_word_vectors(const std::string& path, const Tokenizer& tokenizer, const Tensor& vectors);

/// Prints the `count` words nearest to a word, and writes them to the file `json` unless it is "".
/// The word may be an index, as in row_named(). Throws std::invalid_argument, which begins with
/// --near, if there is no such word.
void show_nearest(const WordVectorsOfRun& run, const std::string& word, std::size_t count,
                  const std::string& json);

}  // namespace rowgrad
