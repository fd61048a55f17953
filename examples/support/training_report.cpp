#include <algorithm>

#include <rowgrad/examples/support/training_report.hpp>

namespace rowgrad {
namespace {

using nlohmann::json;

constexpr std::size_t kFramesOfASteppedRun = 20;

}  // namespace

TrainingReport::TrainingReport(Training& training, json about)
    : training_(training),
      report_(training.model(), training.tokenizer(), training.options().context,
              training.run.steps(), training.steps_in_all(), std::move(about)) {
  report_.set_text(training.training_ids(), training.validation_ids());
  training.run.on_batch = [this](const Batch& batch) { report_.on_batch(batch); };
  training.run.before_update = [this] { before_update(); };
}

TrainingReport::~TrainingReport() {
  training_.run.on_batch = nullptr;
  training_.run.before_update = nullptr;
}

void TrainingReport::before_update() {
  const TrainOptions& options = training_.options();
  // Other rules have decay in the gradient, where it is no share of the value.
  const bool is_a_share = options.optimizer == "adamw" || options.optimizer == "sgd";
  const double decay = is_a_share ? training_.learning_rate() * options.weight_decay : 0;
  report_.before_update(training_.run.steps() + 1, decay, options.clip);
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

json TrainingReport::so_far() const {
  json report = report_.so_far();
  add_facts(report, "running");
  return report;
}

json TrainingReport::stopped() const {
  json report = report_.so_far();
  add_facts(report, "stopped");
  return report;
}

json TrainingReport::at_end(const Ids& prompt, const std::function<bool()>& goes_on) {
  json report = report_.at_end(prompt, goes_on);
  add_facts(report, training_.finished() ? "finished" : "stopped");
  return report;
}

void TrainingReport::add_facts(json& report, const char* state) const {
  report["run"]["state"] = state;
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
  const TrainOptions& options = training_.options();
  if (options.weight_decay > 0 && options.optimizer != "sgd" && options.optimizer != "adamw")
    for (json& table : report["tables"]) table["coupled_decay"] = true;
  report["samples"] = training_.samples();
}

}  // namespace rowgrad
