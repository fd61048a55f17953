#include <algorithm>
#include <cmath>

#include <rowgrad/examples/support/run_analysis.hpp>
#include <rowgrad/examples/support/training_report.hpp>

namespace rowgrad {
namespace {

using nlohmann::json;

constexpr std::size_t kFramesOfASteppedRun = 20;
constexpr std::size_t kMostPrompt = 32;  // tokens whose attention is shown
constexpr int kShareOfTime = 100;        // that reports may take in the course of a run, one in 100

}  // namespace

TrainingReport::TrainingReport(Training& training, json about)
    : training_(training),
      report_(training.model(), training.tokenizer(), training.options().context,
              training.steps_in_all(), std::move(about)) {
  training.on_batch = [this](const Batch& batch) { report_.on_batch(batch); };
  training.before_update = [this] {
    report_.before_update(training_.run.steps() + 1, decay(), training_.options().clip);
  };
}

TrainingReport::~TrainingReport() {
  training_.on_batch = nullptr;
  training_.before_update = nullptr;
}

// The share that weight decay takes of each value in a step; for rules where that is a number.
double TrainingReport::decay() const {
  const TrainOptions& options = training_.options();
  const bool plain = options.optimizer == "adamw" || options.optimizer == "sgd";
  return plain ? training_.learning_rate() * options.weight_decay : 0;
}

void TrainingReport::after_step(double loss) {
  const std::uint64_t step = training_.run.steps();
  report_.after_step({step, loss, training_.learning_rate(), training_.run.tokens_per_second()});
  const std::size_t frame_steps =
      training_.options().steps > 0
          ? std::max<std::size_t>(1, training_.steps_in_all() / kFramesOfASteppedRun)
          : training_.run.steps_per_epoch();
  if (step % frame_steps == 0) report_.take_frame();
}

void TrainingReport::write_if_due(const std::function<void(const json&)>& write) {
  const auto begin = Clock::now();
  if (begin - last_end_ < kShareOfTime * last_cost_) return;
  write(so_far());
  last_end_ = Clock::now();
  last_cost_ = last_end_ - begin;
}

json TrainingReport::so_far() {
  json report = report_.so_far();
  add_facts(report);
  return report;
}

json TrainingReport::at_end(const Ids& prompt, const std::function<bool()>& goes_on) {
  const Ids& training = training_.training_ids();
  std::vector<std::int32_t> ids(training.begin(), training.end());
  if (const Ids* validation = training_.validation_ids())
    ids.insert(ids.end(), validation->begin(), validation->end());
  json report = report_.at_end(ids, training.size(), goes_on);
  add_facts(report);
  report["run"]["finished"] = training_.finished();
  if (auto* gpt = dynamic_cast<GptModel*>(&training_.model()))
    report["attention"] = attention_json(
        *gpt,
        to_ids(std::span(prompt.data(), std::min({prompt.size(), kMostPrompt, gpt->context()}))));
  return report;
}

void TrainingReport::add_facts(json& report) const {
  report["run"]["seconds"] = rounded(std::chrono::duration<double>(Clock::now() - start_).count());
  json& evaluations = report["evaluations"] = json::array();
  for (const EpochRecord& record : training_.run.history())
    if (record.validation_loss)
      evaluations.push_back(
          to_json(Evaluation{record.steps, record.training_loss, record.validation_loss}));
  for (const Evaluation& evaluation : training_.evaluations())
    evaluations.push_back(to_json(evaluation));
  std::stable_sort(evaluations.begin(), evaluations.end(),
                   [](const json& a, const json& b) { return a["steps"] < b["steps"]; });
  const std::size_t size = training_.tokenizer().size();
  const Ids* validation = training_.validation_ids();
  const Ids& told = validation != nullptr ? *validation : training_.training_ids();
  report["baselines"] = {{"uniform", rounded(std::log(static_cast<double>(size)))},
                         {"unigram", rounded(unigram_loss(training_.training_ids(), told, size))}};
  report["samples"] = training_.samples();
}

}  // namespace rowgrad
