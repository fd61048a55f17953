#include <algorithm>
#include <cmath>
#include <cstdio>

#include <rowgrad/core/tensor/utf8.hpp>
#include <rowgrad/examples/support/report_template.hpp>
#include <rowgrad/examples/support/run_analysis.hpp>
#include <rowgrad/examples/support/run_report.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>

namespace rowgrad {
namespace {

using nlohmann::json;

constexpr std::size_t kNorms = 200;  // that are measured in a run, about
constexpr std::size_t kFramesOfASteppedRun = 20;
constexpr std::size_t kMostEmbeddings = 2000;
constexpr std::size_t kMostPositions = 256;
constexpr std::size_t kMostPrompt = 32;  // tokens whose attention is shown
constexpr int kShareOfTime = 50;         // that a report may take, one in so many

// What a row of a table with row gradients stands for; empty for other parameters.
std::string kind_of(const std::string& name) {
  if (name == "token.weight") return "token";
  if (name == "position.weight") return "position";
  if (name == "t5_table" || name.rfind("shaw_", 0) == 0) return "distance";
  return "";
}

json rounded_all(const std::vector<double>& numbers) {
  json all = json::array();
  for (const double number : numbers) all.push_back(rounded(number));
  return all;
}

json parameters_json(const LanguageModel& model) {
  json all = json::array();
  for (const Parameter* parameter : model.parameters()) {
    const Shape& shape = parameter->shape();
    all.push_back({{"name", parameter->name()},
                   {"shape", std::vector<std::size_t>(shape.begin(), shape.end())},
                   {"count", element_count(shape)},
                   {"trainable", parameter->trainable()}});
  }
  return all;
}

}  // namespace

std::string shown_bytes(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    if (character.code_point == kInvalidCodePoint) {
      char byte[8];
      std::snprintf(byte, sizeof byte, "<0x%02X>", static_cast<unsigned char>(text[at]));
      shown += byte;
    } else {
      shown += text.substr(at, character.bytes);
    }
    at += character.bytes;
  }
  return shown;
}

RunReport::RunReport(Training& training, json about)
    : training_(training), about_(std::move(about)) {
  for (Parameter* parameter : training.model().parameters())
    if (const std::string kind = kind_of(parameter->name()); !kind.empty())
      tables_.emplace_back(*parameter, kind);
  training.on_batch = [this](const Batch& batch) {
    for (RowHistory& table : tables_) {
      if (table.kind() == "token")
        for (const std::int32_t id : batch.inputs) table.look_up(id);
      if (table.kind() == "position")
        for (std::size_t i = 0; i < batch.inputs.shape(1); ++i)
          table.look_up(static_cast<std::int32_t>(i), batch.inputs.shape(0));
    }
  };
  training.before_update = [this] {
    const std::uint64_t step = training_.run.steps() + 1;
    for (RowHistory& table : tables_) table.before_update(step, decay());
    rows_now_ = 0;
    if (!tables_.empty() && tables_.front().table().gradient().is_rows())
      rows_now_ = tables_.front().table().gradient().rows().size();
    const std::size_t every = std::max<std::size_t>(1, training_.steps_in_all() / kNorms);
    if (step % every != 0 && step != 1) return;
    const double norm = gradient_norm(training_.model().parameters());
    const double clip = training_.options().clip;
    norm_step_.push_back(step);
    norm_.push_back(norm);
    clipped_.push_back(clip > 0 ? std::min(norm, clip) : norm);
  };
}

RunReport::~RunReport() {
  training_.on_batch = nullptr;
  training_.before_update = nullptr;
}

// The share that weight decay takes of each value in a step; for rules where that is a number.
double RunReport::decay() const {
  const TrainOptions& options = training_.options();
  const bool plain = options.optimizer == "adamw" || options.optimizer == "sgd";
  return plain ? training_.learning_rate() * options.weight_decay : 0;
}

void RunReport::after_step(double loss) {
  const std::uint64_t step = training_.run.steps();
  loss_sum_ += loss;
  row_sum_ += static_cast<double>(rows_now_);
  if (++summed_ >= steps_a_point_) {
    curves_.step.push_back(step);
    curves_.loss.push_back(loss_sum_ / static_cast<double>(summed_));
    curves_.learning_rate.push_back(training_.learning_rate());
    curves_.tokens_per_second.push_back(training_.run.tokens_per_second());
    curves_.rows.push_back(row_sum_ / static_cast<double>(summed_));
    loss_sum_ = row_sum_ = 0;
    summed_ = 0;
    if (curves_.step.size() == kMostPoints) halve_curves();
  }
  const std::size_t frame_steps =
      training_.options().steps > 0
          ? std::max<std::size_t>(1, training_.steps_in_all() / kFramesOfASteppedRun)
          : training_.run.steps_per_epoch();
  if (step % frame_steps == 0)
    for (RowHistory& table : tables_) table.take_frame(step);
}

void RunReport::halve_curves() {
  for (auto* curve :
       {&curves_.loss, &curves_.learning_rate, &curves_.tokens_per_second, &curves_.rows}) {
    for (std::size_t i = 0; i < curve->size() / 2; ++i)
      (*curve)[i] = ((*curve)[2 * i] + (*curve)[2 * i + 1]) / 2;
    curve->resize(curve->size() / 2);
  }
  for (std::size_t i = 0; i < curves_.step.size() / 2; ++i)
    curves_.step[i] = curves_.step[2 * i + 1];
  curves_.step.resize(curves_.step.size() / 2);
  steps_a_point_ *= 2;
}

bool RunReport::is_due() const { return Clock::now() - last_end_ > kShareOfTime * last_cost_; }

json RunReport::so_far() {
  const auto begin = Clock::now();
  for (RowHistory& table : tables_) table.take_frame(training_.run.steps());
  json run = about_;
  run["seconds"] = rounded(std::chrono::duration<double>(begin - start_).count());
  run["finished"] = false;
  run["parameters"] = parameters_json(training_.model());
  json report{{"format", "rowgrad report 1"}, {"run", std::move(run)}};

  json vocabulary = json::array();
  for (std::size_t id = 0; id < training_.tokenizer().size(); ++id)
    vocabulary.push_back(shown_bytes(training_.tokenizer().token(static_cast<std::int32_t>(id))));
  report["vocabulary"] = std::move(vocabulary);
  report["curves"] = {{"step", curves_.step},
                      {"loss", rounded_all(curves_.loss)},
                      {"learning_rate", rounded_all(curves_.learning_rate)},
                      {"tokens_per_second", rounded_all(curves_.tokens_per_second)},
                      {"rows", rounded_all(curves_.rows)}};
  report["norms"] = {
      {"step", norm_step_}, {"norm", rounded_all(norm_)}, {"clipped", rounded_all(clipped_)}};
  report["evaluations"] = json::array();
  for (const EpochRecord& record : training_.run.history())
    if (record.validation_loss)
      report["evaluations"].push_back(
          to_json(Evaluation{record.steps, record.training_loss, record.validation_loss}));
  for (const Evaluation& evaluation : training_.evaluations())
    report["evaluations"].push_back(to_json(evaluation));
  std::stable_sort(report["evaluations"].begin(), report["evaluations"].end(),
                   [](const json& a, const json& b) { return a["steps"] < b["steps"]; });
  const std::size_t size = training_.tokenizer().size();
  const TokenSource* validation = training_.validation_ids();
  report["baselines"] = {
      {"uniform", rounded(std::log(static_cast<double>(size)))},
      {"unigram", rounded(unigram_loss(
                      training_.training_ids(),
                      validation != nullptr ? *validation : training_.training_ids(), size))}};
  report["samples"] = training_.samples();
  report["tables"] = json::array();
  for (const RowHistory& table : tables_) report["tables"].push_back(table.to_json());
  last_end_ = Clock::now();
  last_cost_ = last_end_ - begin;
  return report;
}

json RunReport::at_end(const Ids& prompt) {
  json report = so_far();
  report["run"]["finished"] = training_.finished();
  LanguageModel& model = training_.model();
  const TokenSource& training = training_.training_ids();
  std::vector<std::int32_t> ids;
  const auto append = [&ids](const TokenSource& source) {
    const std::size_t before = ids.size();
    ids.resize(before + std::min<std::uint64_t>(source.size(), kMostText - before));
    source.read(0, std::span(ids).subspan(before));
  };
  append(training);
  if (const TokenSource* validation = training_.validation_ids()) append(*validation);
  report["text"] = text_json(model, ids, training.size());
  for (const RowHistory& table : tables_) {
    if (table.kind() == "token" && table.most_frequent(1).size() == 1)
      report["embeddings"] = embeddings_json(table.table(), table.most_frequent(kMostEmbeddings));
    if (table.kind() == "position" && table.table().shape()[0] <= kMostPositions)
      report["positions"] = positions_json(table.table());
  }
  if (auto* gpt = dynamic_cast<GptModel*>(&model))
    report["attention"] = attention_json(
        *gpt,
        to_ids(std::span(prompt.data(), std::min({prompt.size(), kMostPrompt, gpt->context()}))));
  const std::size_t context = std::min(training_.options().context, ids.size() - 1);
  report["tape"] = tape_json(model, to_ids(std::span(ids).first(context)),
                             to_ids(std::span(ids).subspan(1, context)), Random(0));
  return report;
}

void check_report_page() {
  check_runtime(!kReportBefore.empty(),
                "--report needs the chart library: install libjs-dygraphs and build again "
                "(--report-data works without it)");
}

std::string report_page(const json& report) {
  check_report_page();
  std::string page(kReportBefore);
  for (const char byte : report.dump(-1, ' ', false, json::error_handler_t::replace))
    byte == '<' ? page += "\\u003c" : page += byte;
  return page += kReportAfter;
}

}  // namespace rowgrad
