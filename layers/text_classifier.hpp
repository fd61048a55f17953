#pragma once

#include <cstddef>
#include <span>

#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {

/// The positions that the head reads.
enum class Pooling {
  kLast,  // one position; a causal model has seen all earlier positions
  kMean   // the mean of a position and all positions before it
};

struct TextClassifierOptions {
  Pooling pooling = Pooling::kLast;  // positions that the head reads
  LinearOptions head = {};           // options of the new head
};

/// A language model with another head: a linear layer, with an output for each class, that reads
/// the input of the original head. Each position gets logits for the document up to that
/// position. The target of a document is at its last token; all other targets are ignored (see
/// classification_example()).
///
/// The language model is borrowed as the part "body", and must outlive the classifier. Meanwhile,
/// the model's parameters are named "body.token.weight" …. Freeze parameters that must not change,
/// and the original head, which gets no gradient unless tied to the token table:
///
///   model.freeze();
///   model.unfreeze("blocks.11.*,norm.*");
///   TextClassifier classifier(model, 2, random);
class TextClassifier : public TextModel {
 public:
  /// Draws the head. Throws std::invalid_argument if `body` is a part of another layer or
  /// `classes` is 0, and std::logic_error if `body` has no head.
  TextClassifier(LanguageModel& body, std::size_t classes, Random& random,
                 const TextClassifierOptions& options = {});

  /// Returns the input of the body's head or, with Pooling::kMean, its running means.
  Variable hidden_states(Tape& tape, const Ids& ids) override;
  Linear* output_layer() override { return &head; }
  std::vector<TableLookup> lookups(const Batch& batch) const override {
    return body_.lookups(batch);
  }

  /// Returns the class probabilities of a whole document, in evaluation mode.
  Tensor probabilities(std::span<const std::int32_t> ids);

  std::size_t context() const override { return body_.context(); }
  /// Returns the number of outputs of the head.
  std::size_t classes() const override { return head.weight.shape()[0]; }

 private:
  LanguageModel& shared(LanguageModel& body);

  LanguageModel& body_;
  Pooling pooling_;

 public:
  Submodule<Linear> head;  // [classes, inputs of the body's head]
};

}  // namespace rowgrad
