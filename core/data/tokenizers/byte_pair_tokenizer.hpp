#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/merge_table.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Options of BytePairTokenizer::train().
struct BytePairOptions {
  /// The number of ids: 256 bytes, the merges, and the special tokens.
  std::size_t size = 1024;
  /// Special tokens, which get the last ids. In the training corpus, they separate documents.
  std::vector<std::string> special_tokens = {std::string(kEndOfText)};
};

/// GPT-2's tokenizer: it splits text into pieces (gpt2_pieces.hpp), then merges their bytes into
/// tokens (merge_table.hpp). It encodes any bytes, and decode() returns exactly these bytes. The
/// merges are GPT-2's (gpt2_tokenizer()) or trained on a corpus. Copyable and movable.
class BytePairTokenizer final : public Tokenizer {
 public:
  /// Repeatedly merges the most frequent pair of adjacent tokens. Ties go to the lower left id,
  /// then to the lower right id. Ids 0 … 255 are the bytes; merged tokens follow in merge order. If
  /// the corpus runs out of pairs, size() is less than options.size. Requires an options.size of at
  /// least 256 plus the number of special tokens.
  static BytePairTokenizer train(std::string_view text, const BytePairOptions& options = {});

  /// Throws if an ordinary token is neither a byte nor made by a merge.
  BytePairTokenizer(Vocabulary vocabulary, MergeTable merges);

  /// Returns the merges in rank order.
  const std::vector<MergeTable::Merge>& merges() const { return merges_.merges(); }

  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  class Caches;

  MergeTable merges_;
  std::shared_ptr<Caches> caches_;  // shared by all copies
};

/// A file in memory.
struct NamedText {
  std::string name;      // path for messages
  std::string contents;  // contents of the file
};

/// Builds GPT-2's tokenizer from its two published files. `vocab_bpe` has a line `#version: …`,
/// then one merge per line, such as `Ġ t`, in rank order. `encoder_json` is an object that maps
/// tokens to ids. In both, bytes are printable text: see printable_from_bytes(). The ids must be 0,
/// 1, 2 … without gaps, and all `special_tokens` must occur. Every other token must be a byte or
/// made by a merge. Otherwise throws std::runtime_error naming the file and, for vocab_bpe, the
/// line.
BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens = {
                                     std::string(kEndOfText)});

/// Calls gpt2_tokenizer() with two files. Also throws if a file cannot be read.
BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens = {
                                          std::string(kEndOfText)});

}  // namespace rowgrad
