#include <algorithm>
#include <cstddef>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_training.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_split.hpp>
#include <rowgrad/core/data/tokenizers/special_tokens.hpp>

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

bool BytePairTokenizer::can_cut(std::string_view text, std::size_t place) const {
  return gpt2_can_cut(text, place);
}

}  // namespace rowgrad
