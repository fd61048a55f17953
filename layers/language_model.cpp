#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {
namespace {

void check_temperature(std::string_view caller, double temperature) {
  check_argument(std::isfinite(temperature) && temperature >= 0, caller, ": temperature is ",
                 temperature, ", expected a finite number >= 0");
}

// Returns the lookups for the tokens of `text` from index `first` on.
std::vector<TableLookup> lookups_of(const Model& model, std::span<const std::int32_t> text,
                                    std::size_t first) {
  Ids ids = to_ids(text.subspan(first));
  ids.reshape(Ids::shape_type{1, text.size() - first});
  return model.lookups({.ids = {ids, ids}});
}

// A decoder that runs the model on the whole document for each chunk.
class RereadingDecoder : public IncrementalDecoder {
 public:
  explicit RereadingDecoder(LanguageModel& model) : model_(model) {}

  Tensor next_logits(std::span<const std::int32_t> ids) override {
    check_argument(!ids.empty(), "IncrementalDecoder: got no ids, expected at least one");
    const EvaluationMode mode(model_);
    std::vector<std::int32_t> text = text_;  // text_ changes only on success
    text.insert(text.end(), ids.begin(), ids.end());
    Ids batch = to_ids(text);
    batch.reshape(Ids::shape_type{1, text.size()});
    Tape tape(Tape::kInference);
    const Variable logits = model_.forward(tape, batch);
    const std::size_t vocabulary = model_.vocabulary();
    check_argument(logits.shape() == Shape({1, text.size(), vocabulary}),
                   "LanguageModel: forward returned logits of shape ", bracketed(logits.shape()),
                   ", expected [1, ", text.size(), ", ", vocabulary, "]");
    Tensor last = empty({vocabulary});
    std::copy_n(logits.value().data() + (text.size() - 1) * vocabulary, vocabulary, last.data());
    text_ = std::move(text);
    return last;
  }

 private:
  LanguageModel& model_;
  std::vector<std::int32_t> text_;
};

}  // namespace

Variable TextModel::hidden_states(Tape&, const Ids&) {
  throw std::logic_error(
      "TextModel: this model does not override hidden_states(), which computes the head's input");
}

Variable TextModel::forward(Tape& tape, const Ids& ids) {
  check_state(output_layer() != nullptr,
              "TextModel: this model overrides neither forward() nor output_layer()");
  return output_layer()->forward(hidden_states(tape, ids));
}

Variable TextModel::loss(Tape& tape, const Ids& ids, const Ids& targets,
                         const CrossEntropyOptions& options) {
  Linear* const head = output_layer();
  if (sampler_ && training() && !tape.is_inference()) {
    check_argument(
        !options.class_weights && !options.target_weights && options.label_smoothing == 0,
        "TextModel: got class_weights, target_weights or label_smoothing, expected none after "
        "sample_loss()");
    const Variable x = hidden_states(tape, ids), weight = tape.parameter(head->weight);
    return sampled_softmax_loss(
        x, weight, head->bias ? std::optional(tape.parameter(*head->bias)) : std::nullopt, targets,
        sampler_->draw({samples_}, tape.random("TextModel: a sampled loss")),
        {options.reduction, options.ignore_index});
  }
  return head != nullptr ? head->cross_entropy(hidden_states(tape, ids), targets, options)
                         : cross_entropy(forward(tape, ids), targets, options);
}

void TextModel::sample_loss(NegativeSampler sampler, std::size_t count) {
  check_argument(output_layer() != nullptr && !output_layer()->has_lora(),
                 "TextModel::sample_loss: got a model without a head, or a head with an adapter, "
                 "expected a head without an adapter");
  check_argument(sampler.classes() == classes() && count >= 1 && count <= classes(),
                 "TextModel::sample_loss: got ", sampler.classes(), " weights and a count of ",
                 count, ", expected ", classes(), " weights and a count from 1 to ", classes());
  sampler_ = std::move(sampler);
  samples_ = count;
}

std::unique_ptr<IncrementalDecoder> LanguageModel::decoder() {
  return std::make_unique<RereadingDecoder>(*this);
}

std::unique_ptr<IncrementalDecoder> LanguageModel::sliding_decoder() {
  throw std::invalid_argument(
      "LanguageModel: this model has no sliding_decoder(), which PastContext::kSlidingWindow "
      "needs");
}

LanguageModel& as_language_model(Layer& model, std::string_view caller) {
  if (auto* const language = dynamic_cast<LanguageModel*>(&model)) return *language;
  const auto* const text = dynamic_cast<const TextModel*>(&model);
  throw std::invalid_argument(concat(
      caller, ": the model ",
      text != nullptr ? concat("predicts ", text->classes(), " classes") : "does not read text",
      ", expected one that predicts the next token"));
}

// Chooses the token with the largest p / E, where p is its probability, and E is drawn for each
// token from the exponential distribution, as torch.multinomial does for one sample (the
// "exponential trick"). Computes in float, as PyTorch does.
std::size_t sample_token(std::span<const real> logits, double temperature, std::size_t top_k,
                         Random& random) {
  check_argument(!logits.empty(), "sample_token: got no logits, expected at least one");
  check_temperature("sample_token", temperature);
  const auto largest = std::max_element(logits.begin(), logits.end());
  const bool valid =
      std::isfinite(*largest) && std::ranges::none_of(logits, [](real x) { return std::isnan(x); });
  check_argument(valid, "sample_token: the largest logit is ", *largest,
                 ", expected a finite value, and no NaN among the logits");
  if (temperature == 0) return static_cast<std::size_t>(largest - logits.begin());
  real threshold = -std::numeric_limits<real>::infinity();
  if (top_k > 0 && top_k < logits.size()) {
    std::vector<real> sorted(logits.begin(), logits.end());
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(top_k) - 1;
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    threshold = *last;
  }
  std::vector<float> weights(logits.size());
  float total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double distance = (static_cast<double>(logits[i]) - *largest) / temperature;
    weights[i] = logits[i] < threshold ? 0 : std::exp(static_cast<float>(distance));
    total += weights[i];
  }
  std::size_t chosen = 0;
  float best = -1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto exponential = static_cast<float>(-std::log1p(-random.uniform_double()));
    const float quotient = weights[i] / total / exponential;
    if (quotient > best) {
      best = quotient;
      chosen = i;
    }
  }
  return chosen;
}

Ids generate(LanguageModel& model, const Ids& prompt, const GenerateOptions& options,
             Random& random) {
  check_argument(prompt.size() > 0, "generate: the prompt has no tokens, expected at least one");
  check_argument(model.context() > 0, "generate: the model's context is 0, expected at least 1");
  check_temperature("generate", options.temperature);
  const auto new_tokens =
      static_cast<std::ptrdiff_t>(options.max_new_tokens);  // negative if an int wrapped
  const auto top_k = static_cast<std::ptrdiff_t>(options.top_k);
  check_argument(new_tokens >= 0 && top_k >= 0, "generate: max_new_tokens is ", new_tokens,
                 " and top_k is ", top_k, ", expected both >= 0");
  const EvaluationMode mode(model);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  const bool slides = options.past_context == PastContext::kSlidingWindow;
  std::unique_ptr<IncrementalDecoder> decoder = slides ? model.sliding_decoder() : model.decoder();
  std::size_t unread = std::min(text.size(), model.context());
  std::size_t first = text.size() - unread;  // index of the window's first token
  for (std::size_t i = 0; i < options.max_new_tokens; ++i) {
    if (text.size() - first > model.context()) {
      ++first;
      if (!slides) {  // the window's tokens move to new positions
        decoder = model.decoder();
        unread = model.context();
      }
    }
    if (options.tables != nullptr) options.tables->fetch(lookups_of(model, text, first));
    const Tensor logits = decoder->next_logits(std::span(text).last(unread));
    unread = 1;
    text.push_back(static_cast<std::int32_t>(
        sample_token({logits.data(), logits.size()}, options.temperature, options.top_k, random)));
    if (options.on_token && !options.on_token(text.back())) break;
  }
  return to_ids(std::span(text).subspan(prompt.size()));
}

}  // namespace rowgrad
