#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

BytePairTokenizer BytePairTokenizer::train(std::string_view text, const BytePairOptions& options) {
  const std::vector<std::string>& special = options.special_tokens;
  const std::size_t smallest = 256 + special.size();
  check_argument(options.size >= smallest && options.size <= MergeTable::kMostTokens,
                 "BytePairTokenizer: size ", options.size, " is not between ", smallest,
                 " (256 bytes and ", special.size(), " special tokens) and ",
                 MergeTable::kMostTokens);

  BytePairTrainer trainer;
  const Vocabulary separators = vocabulary_with_special({}, special);
  SpecialTokenSearch search(text, special, separators);
  std::size_t begin = 0;
  while (const auto found = search.next(begin)) {
    trainer.add_text(text.substr(begin, found->begin - begin));
    begin = found->end;
  }
  trainer.add_text(text.substr(begin));

  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const auto token = [&](std::int32_t id) { return tokens[static_cast<std::size_t>(id)]; };
  const auto pairs = trainer.train(options.size - smallest);
  for (const auto& [left, right] : pairs) tokens.push_back(token(left) + token(right));

  Vocabulary vocabulary = vocabulary_with_special(tokens, special);
  MergeTable merges(vocabulary);
  for (const auto& [left, right] : pairs) merges.add(token(left), token(right), vocabulary);
  return BytePairTokenizer(std::move(vocabulary), std::move(merges));
}

BytePairTokenizer::BytePairTokenizer(Vocabulary tokens, MergeTable merges)
    : Tokenizer(std::move(tokens)), merges_(std::move(merges)) {
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    check_argument(vocabulary().is_special(id) || merges_.makes(id), "BytePairTokenizer: token ",
                   id, ", ", in_quotes(token(id)),
                   ", is not special, no byte, and made by no merge");
  }
}

void BytePairTokenizer::append_ids(std::string_view text, std::size_t /*offset*/,
                                   std::vector<std::int32_t>& ids) const {
  std::unique_ptr<PieceCache> cache = caches_->borrow();
  MergeTable::Workspace workspace;
  std::vector<std::int32_t> merged;
  std::size_t count = ids.size();  // the ids so far; `ids` has room for more, which grows in steps
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    if (ids.size() - count < PieceCache::kMostIds) ids.resize(count + 1024);
    end = gpt2_piece_end(text, begin);
    const std::size_t found = cache->find(text, begin, end, &ids[count]);
    count += found;
    if (found > 0) [[likely]]
      continue;
    merged.clear();
    merges_.append_ids(text.substr(begin, end - begin), workspace, merged);
    cache->keep(text, begin, end, merged);
    if (ids.size() - count < merged.size()) ids.resize(count + merged.size());
    std::copy(merged.begin(), merged.end(), ids.begin() + static_cast<std::ptrdiff_t>(count));
    count += merged.size();
  }
  ids.resize(count);
  caches_->give_back(std::move(cache));
}

// --- GPT-2's files -------------------------------------------------------------------------------

namespace {

Vocabulary parse_encoder(const NamedText& file, const std::vector<std::string>& special_tokens) {
  const Json json(file.contents, file.name);
  const std::set<std::string_view> all_special(special_tokens.begin(), special_tokens.end());
  const std::size_t size = json.members().size();
  std::vector<std::string> tokens(size);
  std::vector<std::int32_t> special_ids;
  // If every id is below the number of tokens and occurs once, there are no gaps either.
  for (const auto& [token, json_id] : json.members()) {
    const std::uint64_t id = json_id.whole_number();
    check_argument(!token.empty(), "the token of id ", id, " is empty");
    check_argument(id < size, in_quotes(token), " has id ", id, ", but there are ", size,
                   " tokens");
    check_argument(tokens[id].empty(), in_quotes(token), " and another token have the same id ",
                   id);
    const bool special = all_special.contains(token);
    if (special) special_ids.push_back(static_cast<std::int32_t>(id));
    tokens[id] = special ? token : bytes_from_printable(token);
  }
  Vocabulary vocabulary(std::move(tokens), special_ids);
  for (const std::string& token : special_tokens) {
    check_argument(vocabulary.find_special(token).has_value(), "the special token ",
                   in_quotes(token), " is not in it");
  }
  return vocabulary;
}

MergeTable parse_merges(std::string_view text, const std::string& file,
                        const Vocabulary& vocabulary) {
  MergeTable merges(vocabulary);
  std::size_t line_number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line_number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    try {
      if (line_number == 1) {
        check_argument(line.starts_with("#version:"), "it does not begin with #version:");
      } else {
        merges.add_line(line, vocabulary);
      }
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(concat(file, ", line ", line_number, ": ", error.what()));
    }
  }
  check_runtime(line_number > 1, file, " is empty");
  return merges;
}

}  // namespace

BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens) {
  try {
    Vocabulary vocabulary = parse_encoder(encoder_json, special_tokens);
    MergeTable merges = parse_merges(vocab_bpe.contents, vocab_bpe.name, vocabulary);
    return BytePairTokenizer(std::move(vocabulary), std::move(merges));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(concat(encoder_json.name, ": ", error.what()));
  }
}

BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens) {
  // In separate statements, because a compiler may evaluate arguments in any order.
  const NamedText merges{vocab_bpe.string(), read_file(vocab_bpe)};
  const NamedText ids{encoder_json.string(), read_file(encoder_json)};
  return gpt2_tokenizer(merges, ids, special_tokens);
}

}  // namespace rowgrad
