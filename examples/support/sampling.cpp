#include <algorithm>
#include <cmath>
#include <vector>

#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/sampling.hpp>

namespace rowgrad {
namespace {

std::int32_t draw(const real* logits, std::size_t count, double temperature, Random& random) {
  const real* likeliest = std::max_element(logits, logits + count);
  if (temperature == 0) return static_cast<std::int32_t>(likeliest - logits);
  std::vector<double> cumulative(count);
  double total = 0;
  for (std::size_t i = 0; i < count; ++i)
    cumulative[i] = total += std::exp((static_cast<double>(logits[i]) - *likeliest) / temperature);
  const double at = random.bits() * 0x1p-32 * total;
  return static_cast<std::int32_t>(std::upper_bound(cumulative.begin(), cumulative.end() - 1, at) -
                                   cumulative.begin());
}

}  // namespace

Ids sample(NextTokenModel& model, const Ids& prompt, std::size_t count, double temperature,
           Random& random) {
  check_argument(prompt.size() > 0, "sample: the prompt has no tokens");
  check_argument(std::isfinite(temperature) && temperature >= 0, "sample: temperature ",
                 temperature, " must be finite and not below 0");
  const bool was_training = model.training();
  model.eval();
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  const std::size_t vocabulary = model.options().vocabulary;
  for (std::size_t i = 0; i < count && !interrupted(); ++i) {
    const std::size_t length = std::min(text.size(), model.options().context);
    const Ids window = to_ids(std::span(text).last(length));
    Tape tape(Tape::inference);
    const Tensor& logits = model.forward(tape, window).value();
    text.push_back(
        draw(logits.data() + (length - 1) * vocabulary, vocabulary, temperature, random));
  }
  if (was_training) model.train();
  return to_ids(std::span(text).subspan(prompt.size()));
}

}  // namespace rowgrad
