#include <numeric>
#include <utility>

#include <rowgrad/core/ops/sampled_loss.hpp>
#include <rowgrad/layers/word_vectors.hpp>

namespace rowgrad {

namespace {

// The arrays of a batch of WordPairs.
struct Arrays {
  const Ids& inputs;
  const Ids& targets;
  const Ids& negatives;
  const Ids& counts;  // of the context words of each word
};

Arrays arrays_of(const Batch& batch, bool cbow) {
  const bool shares = !batch.shared.empty();
  const std::size_t expected = shares ? 3 : 4;
  const auto& bags = batch.bags;
  check_argument(bags.size() == expected && batch.shared.size() <= 1, "WordVectors: the batch has ",
                 bags.size(), " arrays of bags, expected the ", expected, " of WordPairs");
  const std::size_t words = bags[cbow].ids.size(), counts = bags.back().ids.size();
  check_argument(words == counts, "WordVectors: the batch has ", counts,
                 " numbers of context words for ", words, " words, expected a batch for ",
                 cbow ? "CBOW" : "skip-gram");
  return {bags[0].ids, bags[1].ids, shares ? batch.shared[0] : bags[2].ids, bags.back().ids};
}

const WordVectorOptions& checked(const WordVectorOptions& options) {
  check_argument(options.vocabulary > 0 && options.width > 0 && options.negatives > 0,
                 "WordVectors: vocabulary is ", options.vocabulary, ", width is ", options.width,
                 " and negatives is ", options.negatives, ", expected all above 0");
  return options;
}

Tensor first_vectors(const WordVectorOptions& options, Random& random) {
  const double largest = 0.5 / static_cast<double>(options.width);
  return random.uniform({options.vocabulary, options.width}, -largest, largest);
}

// Returns the offsets of bags with these numbers of ids.
Ids offsets_of(const Ids& counts) {
  Ids offsets = Ids::from_shape(counts.shape());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

}  // namespace

WordVectors::WordVectors(const WordVectorOptions& options, Random& random)
    : options_(checked(options)),
      input(*this, "input", first_vectors(options, random),
            EmbeddingOptions{.kind = RowKind::kToken}),
      output(*this, "output", options.vocabulary, options.width, random,
             EmbeddingOptions{.init_std = 0, .kind = RowKind::kToken}) {}

Variable WordVectors::loss(Tape& tape, const Batch& batch) {
  const Arrays of = arrays_of(batch, options_.cbow);
  const std::size_t targets = of.targets.size();
  check_argument(targets > 0, "WordVectors: the batch has no targets, expected at least one");
  const Variable table = tape.parameter(input.table());
  EmbeddingLookup lookup = input.lookup();
  lookup.tokens = Ids::from_shape({});  // for callbacks: a batch is not a document
  const Ids offsets = offsets_of(of.counts);
  const Variable x = options_.cbow ? embedding_bag(table, {of.inputs, offsets}, lookup)
                                   : embedding(table, of.inputs, lookup);
  const Variable weight = tape.parameter(output.table());
  Ids negatives = of.negatives;
  NegativeSamplingOptions options;
  if (!options_.cbow) options.offsets = offsets;
  if (batch.shared.empty())
    negatives.reshape({targets, negatives.size() / targets});
  else
    options.negative_weight =
        static_cast<double>(options_.negatives) / static_cast<double>(negatives.size());
  return negative_sampling_loss(x, weight, of.targets, negatives, options);
}

double WordVectors::loss_weight(const Batch& batch) const {
  return static_cast<double>(arrays_of(batch, options_.cbow).targets.size());
}

std::vector<TableLookup> WordVectors::lookups(const Batch& batch) const {
  const Arrays of = arrays_of(batch, options_.cbow);
  return {input.lookup_of(of.inputs), output.lookup_of(of.targets), output.lookup_of(of.negatives)};
}

}  // namespace rowgrad
