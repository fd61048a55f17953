#include <utility>

#include <rowgrad/optim/callbacks/samples.hpp>

namespace rowgrad {

Samples::Samples(std::vector<Sample>& samples, const Tokenizer& tokenizer, SampleOptions options)
    : samples_(samples), tokenizer_(tokenizer), options_(std::move(options)) {
  check_argument(options_.prompt.size() > 0 || options_.generate.max_new_tokens == 0,
                 "Samples: the prompt has no tokens, expected at least one");
}

std::string Samples::write(const TrainingRun& run) {
  Random random(options_.seed);
  GenerateOptions generate = options_.generate;
  generate.tables = run.tables();
  was_stopped_ = false;
  generate.on_token = [&](std::int32_t id) {
    was_stopped_ = options_.generate.on_token && !options_.generate.on_token(id);
    return !was_stopped_;
  };
  const Ids more = rowgrad::generate(as_language_model(run.options().model, "Samples"),
                                     options_.prompt, generate, random);
  std::vector<std::int32_t> whole(options_.prompt.begin(), options_.prompt.end());
  whole.insert(whole.end(), more.begin(), more.end());
  return tokenizer_.decode(whole);
}

// Makes no sample after the last step of train(). Programs can call write() instead.
void Samples::after_step(const TrainingRun& run, const StepResult&) {
  if (run.has_more_steps()) make(run);
}

// Makes a sample that is still due because it was stopped, or because the run was saved before it.
void Samples::before_update(const TrainingRun& run) { make(run); }

void Samples::make(const TrainingRun& run) {
  const std::size_t steps = run.steps();
  const bool ends_epoch = !run.history().empty() && run.history().back().ends_epoch() &&
                          run.history().back().steps == steps;
  const bool due = (steps > 0 && options_.every > 0 && steps % options_.every == 0) ||
                   (options_.epochs && ends_epoch);
  const bool known = !samples_.empty() && samples_.back().steps == steps;
  if (!due || known || options_.generate.max_new_tokens == 0) return;
  const std::string text = write(run);
  if (options_.show) options_.show(text);
  if (!was_stopped_) samples_.push_back({steps, text});
}

}  // namespace rowgrad
