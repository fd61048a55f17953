#pragma once

#include <memory>

#include <rowgrad/core/data/tokenizers/merge_table.hpp>
#include <rowgrad/core/data/tokenizers/piece_cache.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

struct BytePairOptions {
  /// The number of ids: 256 bytes, the merges, and the special tokens.
  std::size_t size = 1024;
  /// These get the last ids. In the training text they separate documents.
  std::vector<std::string> special_tokens = {std::string(kEndOfText)};
};

/// GPT-2's tokenizer: text is split into pieces (gpt2_split.hpp) whose bytes are merged into tokens
/// (merge_table.hpp). Any bytes can be encoded, and decode returns exactly the same bytes. The
/// merges are GPT-2's (gpt2_files.hpp) or trained on a text. Movable, not copyable.
class BytePairTokenizer final : public Tokenizer {
 public:
  /// Repeatedly merges the most frequent pair of adjacent tokens; among equally frequent pairs, the
  /// one with the lower left id, then the lower right id. Ids 0 … 255 are the bytes; the merged
  /// tokens follow in the order of merging. If the text runs out of pairs, size() is below
  /// options.size. Throws std::invalid_argument for a size below 256 + the special tokens.
  static BytePairTokenizer train(std::string_view text, const BytePairOptions& options = {});

  /// Throws std::invalid_argument for an ordinary token that is neither a byte nor made by a merge.
  BytePairTokenizer(Vocabulary vocabulary, MergeTable merges);

  const std::vector<MergeTable::Merge>& merges() const { return merges_.merges(); }

  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;
  bool can_cut(std::string_view text, std::size_t place) const override;

  MergeTable merges_;
  std::unique_ptr<PieceCachePool> caches_ = std::make_unique<PieceCachePool>();
};

}  // namespace rowgrad
