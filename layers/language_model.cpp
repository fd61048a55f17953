#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {
namespace {

void check_temperature(std::string_view caller, double temperature) {
  check_argument(std::isfinite(temperature) && temperature >= 0, caller, ": temperature ",
                 temperature, " must be finite and not below 0");
}

// Gives the model all that was read, each time.
class ReadingAgain : public TextReader {
 public:
  explicit ReadingAgain(LanguageModel& model) : model_(model) {}

  Tensor read(std::span<const std::int32_t> ids) override {
    check_argument(!ids.empty(), "TextReader: there are no ids to read");
    const EvaluationMode mode(model_);
    std::vector<std::int32_t> text = text_;  // ids that are refused are not kept
    text.insert(text.end(), ids.begin(), ids.end());
    Ids batch = to_ids(text);
    batch.reshape(Ids::shape_type{1, text.size()});
    Tape tape(Tape::inference);
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

Variable TextModel::before_head(Tape&, const Ids&) {
  throw std::logic_error(
      "TextModel: this model has no before_head(), which output() and other heads read");
}

Variable TextModel::forward(Tape& tape, const Ids& ids) {
  check_state(output() != nullptr, "TextModel: this model has neither forward() nor output()");
  return output()->forward(before_head(tape, ids));
}

Variable TextModel::loss(Tape& tape, const Ids& ids, const Ids& targets,
                         const CrossEntropyOptions& options) {
  Linear* const head = output();
  return head != nullptr ? head->cross_entropy(before_head(tape, ids), targets, options)
                         : cross_entropy(forward(tape, ids), targets, options);
}

void TextModel::read_ahead(const Ids&) {}

std::optional<RowNames> LanguageModel::row_names(const Parameter& table) const {
  const Shape& shape = table.shape();
  return shape.size() == 2 && shape[0] == vocabulary() ? std::optional(RowNames{"token"})
                                                       : std::nullopt;
}

std::unique_ptr<TextReader> LanguageModel::reader() {
  return std::make_unique<ReadingAgain>(*this);
}

LanguageModel& as_language_model(TextModel& model, std::string_view caller) {
  auto* language = dynamic_cast<LanguageModel*>(&model);
  check_argument(language != nullptr, caller, ": the model has ", model.classes(),
                 " classes of its own, expected one that predicts the next token");
  return *language;
}

namespace {

// How many of the targets that are not ignored have the largest logit of their row.
std::size_t count_correct(const Tensor& logits, const Ids& targets,
                          const CrossEntropyOptions& options) {
  const std::size_t classes = logits.shape().back();
  std::size_t correct = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const std::int32_t target = targets.data()[row];
    if (target == options.ignore_index) continue;
    const real* begin = logits.data() + row * classes;
    const bool known = std::none_of(begin, begin + classes, [](real x) { return std::isnan(x); });
    correct += known && std::max_element(begin, begin + classes) == begin + target ? 1U : 0U;
  }
  return correct;
}

}  // namespace

std::optional<Score> evaluate(TextModel& model, DataLoader& loader,
                              const EvaluateOptions& options) {
  check_argument(!options.loss.target_weights,
                 "evaluate: the loss has weights of the targets of one batch");
  const EvaluationMode mode(model);
  SingleProcess alone;
  ProcessGroup& ranks = options.ranks != nullptr ? *options.ranks : alone;
  CrossEntropyOptions sum_of = options.loss;
  sum_of.reduction = LossReduction::kSum;
  std::vector<double> sums;  // of each batch its loss and its correct targets, 0 for other ranks'
  double weight = 0;         // of all targets
  std::size_t counted = 0;
  std::size_t batches = 0;
  for (const Batch& batch : loader) {
    const double of_batch = total_weight(batch.targets, model.classes(), sum_of);
    sums.insert(sums.end(), {0, 0});
    if (++batches % ranks.size() == ranks.rank() && (of_batch > 0 || options.accuracy)) {
      Tape tape(Tape::inference);
      double* const sum = &sums[sums.size() - 2];
      if (options.accuracy) {
        const Variable logits = model.forward(tape, batch.inputs);
        sum[0] = cross_entropy(logits, batch.targets, sum_of).item();
        sum[1] = static_cast<double>(count_correct(logits.value(), batch.targets, sum_of));
      } else {
        sum[0] = model.loss(tape, batch.inputs, batch.targets, sum_of).item();
      }
    }
    weight += of_batch;
    counted +=
        batch.targets.size() -
        static_cast<std::size_t>(std::ranges::count_if(
            batch.targets, [&](std::int32_t target) { return target == sum_of.ignore_index; }));
    if (options.after_batch && !options.after_batch()) return std::nullopt;
    if (batches == options.batches) break;
  }
  check_argument(weight > 0, "evaluate: none of the targets counts, so there is no mean");
  const std::vector<double> all = ranks.gather(std::span<const double>(sums));
  double loss = 0;
  double correct = 0;
  for (std::size_t i = 0; i < batches; ++i) {
    const double* const sum = &all[(i + 1) % ranks.size() * sums.size() + 2 * i];
    loss += sum[0];
    correct += sum[1];
  }
  Score score{loss / weight};
  if (options.accuracy) score.accuracy = correct / static_cast<double>(counted);
  return score;
}

// Chooses the largest p / E, where E is drawn from the exponential distribution for each token,
// like torch.multinomial for one sample (the "exponential trick"). In float in both libraries.
std::size_t draw_token(std::span<const real> logits, double temperature, std::size_t top_k,
                       Random& random) {
  check_argument(!logits.empty(), "draw_token: there are no logits");
  check_temperature("draw_token", temperature);
  const auto largest = std::max_element(logits.begin(), logits.end());
  const bool numbers =
      std::isfinite(*largest) && std::ranges::none_of(logits, [](real x) { return std::isnan(x); });
  check_argument(numbers, "draw_token: the logits are not finite, the largest is ", *largest);
  if (temperature == 0) return static_cast<std::size_t>(largest - logits.begin());
  real least = -std::numeric_limits<real>::infinity();
  if (top_k > 0 && top_k < logits.size()) {
    std::vector<real> sorted(logits.begin(), logits.end());
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(top_k) - 1;
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    least = *last;
  }
  std::vector<float> weights(logits.size());
  float total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double distance = (static_cast<double>(logits[i]) - *largest) / temperature;
    weights[i] = logits[i] < least ? 0 : std::exp(static_cast<float>(distance));
    total += weights[i];
  }
  std::size_t chosen = 0;
  float best = -1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto waiting = static_cast<float>(-std::log1p(-random.uniform_double()));
    const float quotient = weights[i] / total / waiting;
    if (quotient > best) {
      best = quotient;
      chosen = i;
    }
  }
  return chosen;
}

Ids generate(LanguageModel& model, const Ids& prompt, const GenerateOptions& options,
             Random& random) {
  check_argument(prompt.size() > 0, "generate: the prompt has no tokens");
  check_argument(model.context() > 0, "generate: the model's context is 0");
  check_temperature("generate", options.temperature);
  const EvaluationMode mode(model);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::unique_ptr<TextReader> reader = model.reader();
  std::size_t unread = std::min(text.size(), model.context());
  for (std::size_t i = 0; i < options.count; ++i) {
    if (i > 0 && text.size() > model.context()) {  // all positions have changed
      reader = model.reader();
      unread = model.context();
    }
    const Tensor logits = reader->read(std::span(text).last(unread));
    unread = 1;
    text.push_back(static_cast<std::int32_t>(
        draw_token({logits.data(), logits.size()}, options.temperature, options.top_k, random)));
    if (options.on_token && !options.on_token(text.back())) break;
  }
  return to_ids(std::span(text).subspan(prompt.size()));
}

}  // namespace rowgrad
