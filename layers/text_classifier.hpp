#pragma once

#include <cstddef>
#include <span>

#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {

/// Which positions the head reads.
enum class Pooling {
  kLast,  // a position alone, which in a causal model knows those before it
  kMean   // the mean of a position and those before it
};

struct TextClassifierOptions {
  Pooling pooling = Pooling::kLast;  // which positions the head reads
  LinearOptions head = {};           // of the new head
};

/// A language model with another head: what its own head would read goes to a linear layer with an
/// output for each class. Each position gets logits of its own, for the text up to there; the
/// target of a text stands at its last token, and all others are ignored (see
/// classification_example()).
///
/// The language model is borrowed as the part "body", and must outlive the classifier: until that
/// is destroyed, its parameters are named "body.token.weight" …. Freeze what is not to change, its
/// own head included, which nothing trains (unless that is tied to the token table):
///
///   model.freeze();
///   model.unfreeze("blocks.11.*,norm.*");
///   TextClassifier classifier(model, 2, random);
class TextClassifier : public TextModel {
 public:
  /// Throws std::invalid_argument for a body that is a part of another layer, and for 0 classes,
  /// and std::logic_error for a body without a head.
  TextClassifier(LanguageModel& body, std::size_t classes, Random& random,
                 const TextClassifierOptions& options = {});

  /// What the head of the body would read or, with Pooling::kMean, the means of that.
  Variable hidden_states(Tape& tape, const Ids& ids) override;
  Linear* output_layer() override { return &head; }
  std::vector<TableLookup> lookups(const Batch& batch) const override {
    return body_.lookups(batch);
  }

  /// The probabilities [classes] of a whole text, in evaluation mode.
  Tensor probabilities(std::span<const std::int32_t> ids);

  std::size_t context() const override { return body_.context(); }
  /// Number of outputs of the head.
  std::size_t classes() const override { return head.weight.shape()[0]; }

 private:
  LanguageModel& shared(LanguageModel& body);

  LanguageModel& body_;
  Pooling pooling_;

 public:
  Submodule<Linear> head;  // [classes, width of the body]
};

}  // namespace rowgrad
