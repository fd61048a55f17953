#include <array>
#include <bit>
#include <charconv>
#include <iostream>
#include <span>
#include <string_view>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/row_explanation.hpp>
#include <rowgrad/examples/rowgrad/output/row_list_text.hpp>
#include <rowgrad/examples/rowgrad/output/word_vectors.hpp>
#include <rowgrad/examples/rowgrad/session/saved_run.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/nearest.hpp>

namespace rowgrad {
namespace {

bool is_npy(const std::filesystem::path& path) { return path.extension() == ".npy"; }

std::filesystem::path words_path(std::filesystem::path npy) {
  return npy.replace_extension(".words.txt");
}

std::string word_text(const Tokenizer& tokenizer, std::size_t row) {
  std::string text;
  for (const char c : token_text(tokenizer.token(static_cast<std::int32_t>(row)), "\\"))
    text += c == ' ' ? std::string("\\s") : std::string(1, c);
  return text;
}

void append_row(std::string& text, std::span<const real> values) {
  for (const real value : values) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text.append(1, ' ').append(digits.data(), end);
  }
}

// NumPy's reader requires that the header's length, with the first 10 bytes, divides by 64.
std::string npy_header(const Shape& shape) {
  static_assert(std::endian::native == std::endian::little);
  std::string header =
      concat("{'descr': '<f", sizeof(real), "', 'fortran_order': False, 'shape': (", shape[0], ", ",
             shape[1], ", ), }");
  header.resize(128 - 10 - 1, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header;
}

}  // namespace

Parameter& word_table(Layer& model) {
  return model.named_layers<Embedding>().at(0).second->table();
}

WordVectorsOfRun read_word_vectors(const std::filesystem::path& path) {
  const StateDict file = with_sharded_rows(read_safetensors(path), path);
  for (const char* table : {"token.weight", "input.weight"}) {
    const std::string name = concat("model.", table);
    if (!file.contains(name) || !file.contains("tokenizer")) continue;
    return explaining(path.string(), "read", [&] {
      WordVectorsOfRun run{table, tokenizer_from_json(file.string("tokenizer")),
                           std::get<Tensor>(file.at(name))};
      const Shape& shape = run.vectors.shape();
      check_argument(shape.size() == 2 && shape[0] == run.tokenizer->size(), table, " has shape ",
                     bracketed(shape), ", expected [", run.tokenizer->size(), ", width]");
      return run;
    });
  }
  throw std::runtime_error(path.string() + ": not a checkpoint of a model with a tokenizer");
}

std::vector<Output> outputs_of_vectors(const std::string& path) {
  if (path.empty()) return {};
  std::vector<Output> outputs{{"--vectors", path, kWordVectors}};
  if (is_npy(path)) outputs.push_back({"--vectors", words_path(path), kVectorWords});
  return outputs;
}

void write_word_vectors(const std::string& path, const Tokenizer& tokenizer,
                        const Tensor& vectors) {
  const Shape& shape = vectors.shape();
  const bool npy = is_npy(path);
  std::string text = npy ? "" : concat(shape[0], ' ', shape[1], '\n');
  for (std::size_t row = 0; row < shape[0]; ++row) {
    text += word_text(tokenizer, row);
    if (!npy) append_row(text, {vectors.data() + row * shape[1], shape[1]});
    text += '\n';
  }
  if (!npy) return write_file(path, text);
  const auto bytes = std::as_bytes(std::span(vectors.data(), vectors.size()));
  const std::string header = npy_header(shape);
  const std::array<std::string_view, 2> pieces{
      header, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  write_file(words_path(path), text);
  write_file(path, pieces);
}

void show_nearest(const WordVectorsOfRun& run, const std::string& word, std::size_t count,
                  const std::string& json) {
  const Tokenizer& tokenizer = *run.tokenizer;
  const RowNames names{.kind = RowKind::kToken};
  const std::int32_t row =
      row_named("--near", word, {run.table, run.vectors.shape()[0], names, tokenizer});
  const std::vector<Neighbour> neighbours = nearest(run.vectors, row, count);
  std::cout << "Nearest to " << readable_token(tokenizer.token(row)) << ", row " << row << " of "
            << tokenizer.size() << ", by cosine:\n";
  Json listed = Json::array();
  for (const Neighbour& near : neighbours) {
    const std::string& token = tokenizer.token(near.row);
    std::cout << formatted("%8.4f  ", near.cosine) << readable_token(token) << '\n';
    listed.push_back({{"row", near.row}, {"token", token}, {"cosine", near.cosine}});
  }
  if (json.empty()) return;
  const Json all{{"row", row}, {"token", tokenizer.token(row)}, {"neighbours", std::move(listed)}};
  write_file(json, all.dump(2) + "\n");
  std::cout << "JSON in    " << json << '\n';
}

}  // namespace rowgrad
