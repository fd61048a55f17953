#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {

using EmbeddingBagOptions = EmbeddingOptions;  // options of EmbeddingBag

/// A table of vectors that reduces each bag of ids to the sum, mean or element-wise maximum of
/// their vectors: → [bags, width]. The result equals an Embedding followed by a reduction,
/// without storing a row for each id. Padding ids are skipped. With kMax, the gradient has only the
/// rows that are largest in some column. Parameter: weight [rows, width].
class EmbeddingBag : public EmbeddingTable {
 public:
  /// The constructors create the table as Embedding's do.
  EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
               const EmbeddingOptions& options = {})
      : EmbeddingTable("EmbeddingBag", rows, width, random, options) {}
  explicit EmbeddingBag(Tensor table, const EmbeddingOptions& options = {})
      : EmbeddingTable("EmbeddingBag", rows_in_memory(std::move(table)), options) {}
  explicit EmbeddingBag(TableFile& table, const EmbeddingOptions& options = {})
      : EmbeddingTable("EmbeddingBag", file_rows(table), options) {}

  /// Reduces ids [bags, length] in `forward(tape, {ids})`, or bags of any length in `forward(tape,
  /// {ids, offsets})`: see embedding_bag(). For max_norm, see Embedding::forward.
  Variable forward(Tape& tape, Bags bags) {
    return scaled(embedding_bag(tape.parameter(table()), std::move(bags), lookup()));
  }

  /// Reduces Batch::bags. This is a template, so that braced lists convert to `Bags` above.
  Variable forward(Tape& tape, const std::same_as<RaggedIds> auto& bags) {
    EmbeddingLookup options = lookup();
    options.include_last_offset = false;
    return scaled(embedding_bag(tape.parameter(table()), {bags.ids, bags.offsets}, options));
  }
};

}  // namespace rowgrad
