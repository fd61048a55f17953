#include <algorithm>
#include <cmath>
#include <cstdio>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/support/run_analysis.hpp>
#include <rowgrad/examples/support/run_report.hpp>
#include <rowgrad/examples/support/training.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>

namespace rowgrad {
namespace {

using nlohmann::json;

constexpr std::size_t kNorms = 200;  // that are measured in a run, about
constexpr std::size_t kMostEmbeddings = 2000;
constexpr std::size_t kMostPositions = 256;
constexpr std::size_t kMostPrompt = 32;  // tokens whose attention is shown

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

RunReport::RunReport(LanguageModel& model, const Tokenizer& tokenizer, std::size_t context,
                     std::size_t first, std::size_t steps, json about)
    : model_(model),
      tokenizer_(tokenizer),
      context_(context),
      steps_(steps),
      about_(std::move(about)),
      tables_(row_histories(model, context)),
      step_(first) {
  about_["first_step"] = first;
}

void RunReport::set_text(const TokenSequence& training, const TokenSequence* validation) {
  training_ = training;
  if (validation != nullptr) validation_ = *validation;
  const std::size_t size = tokenizer_.size();
  baselines_ = {{"uniform", rounded(std::log(static_cast<double>(size)))},
                {"unigram", rounded(unigram_loss(
                                training, validation != nullptr ? *validation : training, size))}};
}

void RunReport::on_batch(const Batch& batch) {
  for (RowHistory& table : tables_) table.look_up(batch);
}

void RunReport::before_update(std::uint64_t step, double decay, double clip) {
  for (RowHistory& table : tables_) table.before_update(step, decay);
  rows_now_ = tables_.front().rows_now();
  if (step % std::max<std::size_t>(1, steps_ / kNorms) != 0 && step != 1) return;
  const double norm = gradient_norm(model_.parameters());
  norm_step_.push_back(step);
  norm_.push_back(norm);
  clipped_.push_back(clip > 0 ? std::min(norm, clip) : norm);
}

void RunReport::after_step(const Step& step) {
  for (RowHistory& table : tables_) table.after_update();
  step_ = step.number;
  loss_sum_ += step.loss;
  row_sum_ += static_cast<double>(rows_now_);
  if (++summed_ < steps_a_point_) return;
  curves_.step.push_back(step.number);
  curves_.loss.push_back(loss_sum_ / static_cast<double>(summed_));
  curves_.learning_rate.push_back(step.learning_rate);
  curves_.tokens_per_second.push_back(step.tokens_per_second);
  curves_.rows.push_back(row_sum_ / static_cast<double>(summed_));
  loss_sum_ = row_sum_ = 0;
  summed_ = 0;
  if (curves_.step.size() == kMostPoints) halve_curves();
}

void RunReport::take_frame() {
  for (RowHistory& table : tables_) table.take_frame(step_);
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

json RunReport::so_far() const {
  json report{{"format", "rowgrad report 1"}, {"run", about_}};
  report["run"]["state"] = "running";
  report["run"]["parameters"] = parameters_json(model_);
  json vocabulary = json::array();
  for (std::size_t id = 0; id < tokenizer_.size(); ++id)
    vocabulary.push_back(shown_bytes(tokenizer_.token(static_cast<std::int32_t>(id))));
  report["vocabulary"] = std::move(vocabulary);
  report["curves"] = {{"step", curves_.step},
                      {"loss", rounded_all(curves_.loss)},
                      {"learning_rate", rounded_all(curves_.learning_rate)},
                      {"tokens_per_second", rounded_all(curves_.tokens_per_second)},
                      {"rows", rounded_all(curves_.rows)}};
  report["norms"] = {
      {"step", norm_step_}, {"norm", rounded_all(norm_)}, {"clipped", rounded_all(clipped_)}};
  report["baselines"] = baselines_;
  report["tables"] = json::array();
  for (const RowHistory& table : tables_) report["tables"].push_back(table.to_json(step_));
  return report;
}

json RunReport::at_end(const Ids& prompt, const std::function<bool()>& goes_on) {
  json report = so_far();
  report["text"] = text_json(model_, *training_, validation_ ? &*validation_ : nullptr, goes_on);
  for (const RowHistory& table : tables_) {
    if (table.kind() == RowKind::kToken && !table.ids().empty())
      report["embeddings"] = embeddings_json(table.table(), table.most_frequent(kMostEmbeddings));
    if (table.kind() == RowKind::kPosition && table.table().shape()[0] <= kMostPositions)
      report["positions"] = positions_json(table.table());
  }
  if (auto* gpt = dynamic_cast<GptModel*>(&model_))
    report["attention"] = attention_json(
        *gpt,
        to_ids(std::span(prompt.data(), std::min({prompt.size(), kMostPrompt, gpt->context()}))));
  const std::size_t length = std::min<std::uint64_t>(context_, training_->size() - 1);
  report["tape"] = tape_json(model_, training_->slice(0, length).ids(),
                             training_->slice(1, length).ids(), Random(0));
  return report;
}

}  // namespace rowgrad
