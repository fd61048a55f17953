#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/layers/text_classifier.hpp>

namespace rowgrad {
namespace {

std::size_t head_inputs(LanguageModel& body) {
  const Linear* const head = body.output_layer();
  check_state(head != nullptr, "TextClassifier: the model has no head, expected one to replace");
  return head->weight.shape()[1];
}

}  // namespace

TextClassifier::TextClassifier(LanguageModel& body, std::size_t classes, Random& random,
                               const TextClassifierOptions& options)
    : body_(shared(body)),
      pooling_(options.pooling),
      head(*this, "head", head_inputs(body), classes, random, options.head) {}

// Registers the body. Called before the head is constructed, so that parameters() lists the body's
// parameters first.
LanguageModel& TextClassifier::shared(LanguageModel& body) {
  share("body", body);
  return body;
}

Variable TextClassifier::hidden_states(Tape& tape, const Ids& ids) {
  const Variable x = body_.hidden_states(tape, ids);
  if (pooling_ == Pooling::kLast) return x;
  const std::size_t length = ids.shape().back();
  Tensor share = empty({length, 1});
  for (std::size_t i = 0; i < length; ++i) share.data()[i] = real{1} / static_cast<real>(i + 1);
  return cumsum(x, -2) * tape.constant(std::move(share));
}

Tensor TextClassifier::probabilities(std::span<const std::int32_t> ids) {
  check_argument(!ids.empty(), "TextClassifier: got no ids, expected at least one");
  const EvaluationMode mode(*this);
  Ids text = to_ids(ids);
  text.reshape(Ids::shape_type{1, ids.size()});
  Tape tape(Tape::kInference);
  const auto last = static_cast<std::ptrdiff_t>(ids.size()) - 1;
  const Variable x = slice(hidden_states(tape, text), 1, last, last + 1);
  Tensor result = softmax(head.forward(x)).value();
  result.reshape(Shape{classes()});
  return result;
}

}  // namespace rowgrad
