#include <algorithm>
#include <sstream>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/examples/rowgrad/session/corpus.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

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

namespace {

std::vector<std::int32_t> encode_lines(const Tokenizer& tokenizer, std::string_view text,
                                       std::int32_t end) {
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', begin), text.size());
    const auto line = tokenizer.encode(text.substr(begin, line_end - begin), {.offset = begin});
    ids.insert(ids.end(), line.begin(), line.end());
    ids.push_back(end);
    begin = line_end + 1;
  }
  return ids;
}

}  // namespace

Corpus Corpus::find(const std::vector<std::string>& chosen) {
  std::vector<std::string> files;
  for (const std::string& file : chosen) files.push_back(std::filesystem::absolute(file));
  const auto is_text = [](const std::string& file) { return !file.ends_with(".bin"); };
  const auto text = std::find_if(chosen.begin(), chosen.end(), is_text);
  if (chosen.empty() || text != chosen.end()) {
    check_argument(chosen.size() <= 1, "--corpus: got ", chosen.size(), " files, but ",
                   chosen.size() <= 1 ? "" : *text,
                   " is text; expected one text file, or only .bin files of token ids");
    DataFile file = find_corpus(chosen.empty() ? "" : *text);
    Corpus corpus(std::move(file.contents));
    corpus.source_ = std::move(file.source);
    corpus.files_ = std::move(files);
    return corpus;
  }
  Corpus corpus("");
  corpus.files_ = std::move(files);
  corpus.source_ = chosen.front();
  if (chosen.size() > 1) corpus.source_ += concat(" and ", chosen.size() - 1, " more");
  corpus.ids_ = chosen;
  std::ostringstream hash("ids", std::ios::ate);
  corpus.has_checksums_ = true;
  for (const std::string& path : chosen) {
    const TokenFile file(path, {.raw_bytes = 2});
    corpus.bytes_ += std::filesystem::file_size(path);
    hash << ' ' << std::hex << file.fingerprint();
    corpus.has_checksums_ = corpus.has_checksums_ && file.header().has_value();
  }
  corpus.ids_hash_ = std::move(hash).str();
  return corpus;
}

std::unique_ptr<Tokenizer> Corpus::make_tokenizer(const std::string& name, std::size_t vocabulary,
                                                  const WordOptions& words) const {
  check_argument(!has_ids() || !is_made_from_text(name), "--tokenizer ", name,
                 " is trained on text, but --corpus has token ids (", source_,
                 "); pass the file that tokenize --save wrote");
  if (is_made_from_text(name) && name != "bpe") check_utf8(source_, text_);
  return rowgrad::make_tokenizer(name, text_, vocabulary, words);
}

std::string Corpus::hash() const { return has_ids() ? ids_hash_ : checksum(text_); }

Split Corpus::split(const Tokenizer& tokenizer, double validation, bool lines) const {
  const auto end = tokenizer.vocabulary().find_special(kEndOfText);
  check_argument(!lines || !has_ids(), "--lines is for text, but --corpus has token ids (", source_,
                 ")");
  check_argument(!lines || end, "--lines: the tokenizer has no special token ", kEndOfText);
  if (has_ids()) {
    const Vocabulary& vocabulary = tokenizer.vocabulary();
    const TokenFileOptions options = {.raw_bytes = bytes_per_id(vocabulary.size()),
                                      .vocabulary = &vocabulary};
    std::vector<TokenFile> files;
    for (const std::string& path : ids_) files.emplace_back(path, options);
    if (is_verified())
      for (const TokenFile& file : files) file.verify();
    return rowgrad::split(TokenSequence(std::move(files)), validation);
  }
  if (dynamic_cast<const BytePairTokenizer*>(&tokenizer) == nullptr) check_utf8(source_, text_);
  const auto [training, rest] = split_text(text_, validation);
  if (!lines) return {tokenizer.encode(training), tokenizer.encode(rest)};
  return {encode_lines(tokenizer, training, *end), encode_lines(tokenizer, rest, *end)};
}

}  // namespace rowgrad
