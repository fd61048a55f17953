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
  /// These get the last ids. In the training text they separate documents.
  std::vector<std::string> special_tokens = {std::string(kEndOfText)};
};

/// GPT-2's tokenizer: text is split into pieces (gpt2_pieces.hpp) whose bytes are merged into
/// tokens (merge_table.hpp). Any bytes can be encoded, and decode returns exactly the same bytes.
/// The merges are GPT-2's (gpt2_tokenizer) or trained on a text. Copyable and movable.
class BytePairTokenizer final : public Tokenizer {
 public:
  /// Repeatedly merges the most frequent pair of adjacent tokens; among equally frequent pairs, the
  /// one with the lower left id, then the lower right id. Ids 0 … 255 are the bytes; the merged
  /// tokens follow in the order of merging. If the text runs out of pairs, size() is below
  /// options.size, which must be at least 256 + the special tokens.
  static BytePairTokenizer train(std::string_view text, const BytePairOptions& options = {});

  /// Each ordinary token must be a byte or made by a merge.
  BytePairTokenizer(Vocabulary vocabulary, MergeTable merges);

  /// The merges in the order of their ranks.
  const std::vector<MergeTable::Merge>& merges() const { return merges_.merges(); }

  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  class Caches;

  MergeTable merges_;
  std::shared_ptr<Caches> caches_;  // with all copies, which have the same merges
};

/// The contents of a file, and its name in messages.
struct NamedText {
  std::string name;      // the path, for messages
  std::string contents;  // what is in the file
};

/// GPT-2's tokenizer from its two published files. `vocab_bpe` has a line `#version: …` and then
/// one merge per line, such as `Ġ t`, in the order of ranks; `encoder_json` is one object of tokens
/// and their ids. Both write bytes as printable_from_bytes does. The ids must be 0, 1, 2 … without
/// gaps, and each token must be a byte, made by a merge, or one of `special_tokens`, all of which
/// must occur. Otherwise throws std::runtime_error with the file's name and, for vocab_bpe, the
/// line.
BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens = {
                                     std::string(kEndOfText)});

/// The same from paths; also throws if a file cannot be read.
BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens = {
                                          std::string(kEndOfText)});

}  // namespace rowgrad
