#include <algorithm>

#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace rowgrad {

std::pair<std::string, std::string> split_text(const std::string& text, double validation) {
  const auto begins_character = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  };
  const auto characters = std::count_if(text.begin(), text.end(), begins_character);
  auto left = static_cast<std::ptrdiff_t>((1 - validation) * static_cast<double>(characters));
  auto end = text.begin();
  while (end != text.end() && (!begins_character(*end) || left-- > 0)) ++end;
  return {std::string(text.begin(), end), std::string(end, text.end())};
}

Corpus Corpus::find(const std::filesystem::path& chosen) {
  if (chosen.extension() != ".bin") {
    DataFile file = find_corpus(chosen);
    Corpus corpus(std::move(file.contents));
    corpus.source_ = std::move(file.source);
    return corpus;
  }
  Corpus corpus("");
  corpus.source_ = chosen.string();
  corpus.bytes_ = InputFile(chosen).size_bytes();
  corpus.ids_ = chosen;
  return corpus;
}

std::unique_ptr<Tokenizer> Corpus::make_tokenizer(const std::string& name,
                                                  std::size_t vocabulary) const {
  check_argument(!has_ids() || name == "gpt2", "--tokenizer ", name, " is made from a text, but ",
                 source_, " has token ids");
  return rowgrad::make_tokenizer(name, text_, vocabulary);
}

std::string Corpus::hash() const {
  return has_ids() ? concat("ids ", TokenFile(ids_, {.raw_bytes = 2}).fingerprint())
                   : sha256(text_);
}

Split Corpus::split(const Tokenizer& tokenizer, double validation) const {
  if (has_ids()) {
    std::vector<TokenFile> files;
    files.emplace_back(ids_,
                       TokenFileOptions{.raw_bytes = 2, .vocabulary = &tokenizer.vocabulary()});
    return rowgrad::split(TokenSource(std::move(files)), validation);
  }
  const auto [training, rest] = split_text(text_, validation);
  return {tokenizer.encode(training), tokenizer.encode(rest)};
}

}  // namespace rowgrad
