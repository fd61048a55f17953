#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>
#include <rowgrad/examples/report/report_page.hpp>
#include <rowgrad/examples/report/run_analysis.hpp>
#include <rowgrad/examples/report/run_report.hpp>
#include <rowgrad/optim/training/row_list.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kNorms = 200;  // that are measured in a run, about
constexpr std::size_t kNormSteps =
    10;  // for each that is, where the length of the run is not known
constexpr std::size_t kMostRowsShown = std::size_t{1} << 18;  // of a table, on its map
// Rows that moved farthest: whose steps are shown, and of a memory's table the only ones.
constexpr std::size_t kMostReasons = 2000;
constexpr std::size_t kMostEmbeddings = 2000;
constexpr std::size_t kMostPrompt = 32;  // tokens whose attention is shown
// Tokens that the model reads at the end: one for every 16 it was trained on, within bounds, so
// that a short run does not wait for them.
constexpr std::size_t kTrainedAToken = 16;
constexpr std::size_t kFewestRead = 1000;
constexpr std::size_t kMostRead = 24'000;
constexpr int kShareOfTime = 200;  // that writing may take in the course of a run, one in 200

Json rounded_all(const std::vector<double>& numbers) {
  Json all = Json::array();
  for (const double number : numbers) all.push_back(rounded(number));
  return all;
}

Json parameters_json(const Layer& model) {
  const std::vector<Parameter*> own = model.parameters(), on_tape = model.parameters_on_tape();
  Json all = Json::array();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Shape& shape = on_tape[i]->shape();
    all.push_back({{"name", own[i]->name()},
                   {"shape", std::vector<std::size_t>(shape.begin(), shape.end())},
                   {"count", element_count(shape)},
                   {"trainable", own[i]->trainable()}});
  }
  return all;
}

bool has_too_many_ngrams(const TableHistory& table) {
  return table.ngrams() != nullptr && table.ids().size() > kMostReasons;
}

bool is_shown_in_part(const TableHistory& table) {
  return table.table().shape()[0] > kMostRowsShown || table.touched() > table.ids().size() ||
         has_too_many_ngrams(table);
}

// The rows of a table that are shown, as places in its history: in a part those that moved farthest
// come first.
struct ShownRows {
  const TableHistory& history;
  bool is_part = is_shown_in_part(history);
  std::vector<std::size_t> farthest = {};
  std::vector<std::size_t> places = {};

  ShownRows(const TableHistory& table, const TableHistory::Frame& now) : history(table) {
    places.resize(now.rows.size());
    std::iota(places.begin(), places.end(), 0);
    farthest = places;
    std::ranges::stable_sort(farthest, std::greater<>(),
                             [&](std::size_t i) { return now.moved[i]; });
    if (is_part) places = farthest;
    farthest.resize(std::min(farthest.size(), kMostReasons));
    if (has_too_many_ngrams(table)) places = farthest;
  }

  // What the page calls the i-th of these places: in a part, rows are numbered from 0.
  std::size_t number(std::size_t i, std::size_t place) const {
    return is_part ? i : static_cast<std::size_t>(history.ids()[place]);
  }
};

Json frame_json(const ShownRows& shown, const TableHistory::Frame& frame) {
  Json one{{"step", frame.step},     {"rows", Json::array()}, {"lookups", Json::array()},
           {"steps", Json::array()}, {"last", Json::array()}, {"norm", Json::array()},
           {"moved", Json::array()}};
  for (std::size_t i = 0; i < shown.places.size(); ++i) {
    const std::size_t place = shown.places[i];
    if (place >= frame.rows.size()) continue;  // its first gradient came later
    const TableHistory::Row& row = frame.rows[place];
    one["rows"].push_back(shown.number(i, place));
    one["lookups"].push_back(row.lookups);
    one["steps"].push_back(row.steps);
    one["last"].push_back(row.last);
    one["norm"].push_back(rounded(std::sqrt(row.squares)));
    one["moved"].push_back(rounded(frame.moved[place]));
  }
  return one;
}

// Of the rows that moved farthest: the steps in which they did, and the text that looked them up.
Json reasons_json(const ShownRows& shown, const TableHistory::Frame& now) {
  Json reasons{{"rows", Json::array()}, {"path", Json::array()}, {"steps", Json::array()}};
  for (std::size_t i = 0; i < shown.farthest.size(); ++i) {
    const std::size_t place = shown.farthest[i];
    Json steps = Json::array();
    for (const TableHistory::Step& step : shown.history.steps(place)) {
      Json one{{"step", step.step},
               {"lookups", step.lookups},
               {"norm", rounded(step.gradient_norm)},
               {"moved", rounded(step.moved)}};
      if (!step.text.empty()) {
        one["text"] = std::vector(step.text.begin(), step.text.end());
        one["place"] = step.place;
      }
      steps.push_back(std::move(one));
    }
    reasons["rows"].push_back(shown.number(i, place));
    reasons["path"].push_back(rounded(now.rows[place].path));
    reasons["steps"].push_back(std::move(steps));
  }
  return reasons;
}

// What the rows that are shown stand for; empty where that is their number.
std::vector<std::string> labels_of(const ShownRows& shown, const Tokenizer* tokenizer) {
  const TableHistory& history = shown.history;
  if (!shown.is_part && history.ngrams() == nullptr) return history.labels();
  const RowLabels of_rows(history, tokenizer);
  std::vector<std::string> labels;
  if (!shown.is_part)
    for (std::size_t row = 0; row < history.table().shape()[0]; ++row)
      labels.push_back(shown_bytes(of_rows.of(static_cast<std::int32_t>(row))));
  for (const std::size_t place : shown.is_part ? shown.places : std::vector<std::size_t>()) {
    const std::int32_t id = history.ids()[place];
    const std::string label = shown_bytes(of_rows.of(id));
    labels.push_back(label.empty() || label == concat(id) ? concat(id) : concat(id, ": ", label));
  }
  return labels;
}

// A table as the page shows it. Of one that is too large for a map, or of which not all rows are
// followed, those rows that had a gradient are shown as a table of their own, whose labels begin
// with their ids; of a memory's table with many of them, those that moved farthest.
Json table_json(const TableHistory& history, std::uint64_t step, const Tokenizer* tokenizer) {
  const TableHistory::Frame now = history.now(step);
  const ShownRows shown(history, now);
  const Shape& shape = history.table().shape();
  Json frames = Json::array();
  for (const TableHistory::Frame& frame : history.frames())
    if (frame.step < step) frames.push_back(frame_json(shown, frame));
  frames.push_back(frame_json(shown, now));
  Json idle{{"rows", Json::array()}, {"momentum", Json::array()}, {"decay", Json::array()}};
  for (std::size_t i = 0; i < shown.places.size(); ++i) {
    const std::size_t place = shown.places[i];
    const TableHistory::Row& row = now.rows[place];
    if (history.is_dense() || (row.momentum == 0 && row.decay == 0)) continue;
    idle["rows"].push_back(shown.number(i, place));
    idle["momentum"].push_back(rounded(row.momentum));
    idle["decay"].push_back(rounded(row.decay));
  }
  Json table{{"name", history.table().name()},
             {"kind", shown.is_part ? "row" : history.noun()},
             {"rows", shown.is_part ? shown.places.size() : shape[0]},
             {"width", shape[1]},
             {"frames", std::move(frames)},
             {"idle", std::move(idle)},
             {"reasons", reasons_json(shown, now)}};
  if (shown.is_part) {
    const bool has_more = shown.places.size() < now.rows.size();
    table["name"] =
        concat(history.table().name(), ": ",
               has_more ? concat("the ", shown.places.size(), " that moved farthest of ") : "",
               history.touched() == history.ids().size()
                   ? "the"
                   : concat("the first ", history.ids().size(), " of the"),
               ' ', history.touched(),
               history.is_dense() ? " rows that were looked up, of " : " rows with a gradient, of ",
               shape[0]);
    table["ids"] = Json::array();
    for (const std::size_t place : shown.places) table["ids"].push_back(history.ids()[place]);
  }
  if (const auto labels = labels_of(shown, tokenizer); !labels.empty()) table["labels"] = labels;
  if (history.is_dense()) table["dense"] = true;
  if (const auto kept = history.kept_without_gradient()) table["decayed"] = rounded(*kept);
  if (history.has_unknown_decay()) table["coupled_decay"] = true;
  return table;
}

Json embeddings_of(const TableHistory& table) {
  const std::vector<std::int32_t> ids = table.most_frequent(kMostEmbeddings);
  table.values(ids);  // fetches them
  return embeddings_json(table.table(), ids);
}

// The texts of all ids of tokens; empty for a model without tokens.
Json vocabulary_json(const Layer& model, const RowHistory& rows, const Tokenizer* tokenizer) {
  Json vocabulary = Json::array();
  const auto add_all = [&](std::size_t size, const auto& text_of) {
    for (std::size_t id = 0; id < size; ++id)
      vocabulary.push_back(shown_bytes(text_of(static_cast<std::int32_t>(id))));
  };
  if (const auto* language = dynamic_cast<const LanguageModel*>(&model)) {
    add_all(language->vocabulary(), [&](std::int32_t id) { return token_label(tokenizer, id); });
  } else if (!rows.tables().empty() && rows.tables().front().kind() == RowKind::kToken) {
    const RowLabels labels(rows.tables().front(), tokenizer);
    add_all(rows.tables().front().table().shape()[0],
            [&](std::int32_t id) { return labels.of(id); });
  }
  return vocabulary;
}

// Those in the course of epochs, and those after epochs that have a loss of a validation text.
Json evaluations_json(const TrainingRun& run, const std::vector<TrainingRecord>& more) {
  std::vector<TrainingRecord> all;
  for (const TrainingRecord& record : run.history())
    if (!record.ends_epoch() || record.validation_loss) all.push_back(record);
  for (const TrainingRecord& record : more)
    if (all.empty() || all.back().steps != record.steps) all.push_back(record);
  Json evaluations = Json::array();
  for (const TrainingRecord& record : all)
    evaluations.push_back({{"steps", record.steps},
                           {"training_loss", record.training_loss},
                           {"validation_loss", record.validation_loss}});
  return evaluations;
}

// The text that a loader's windows are cut from; null if there is none that goes on.
const TokenSequence* text_behind(const DataLoader* loader) {
  const auto* windows =
      loader == nullptr ? nullptr : dynamic_cast<const TokenWindows*>(loader->dataset().get());
  return windows == nullptr || windows->has_own_targets() ? nullptr : &windows->text();
}

// Of a run of a language model on a text that goes on, both; null for others.
LanguageModel* model_of_text(const TrainingRun* run) {
  return run == nullptr || text_behind(&run->parts().loader) == nullptr
             ? nullptr
             : dynamic_cast<LanguageModel*>(&run->parts().model);
}

}  // namespace

RunReport::RunReport(TrainingRun* run, Layer& model, const Optimizer& optimizer,
                     RunReportOptions options)
    : run_(run),
      model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      first_step_(run != nullptr ? run->steps() : 0),
      steps_(first_step_),
      own_rows_(options_.rows != nullptr
                    ? std::nullopt
                    : std::optional<RowHistory>(std::in_place, model, tables())),
      rows_(options_.rows != nullptr ? *options_.rows : *own_rows_) {
  changes_ = changes();
  if (!options_.page.empty()) check_report_page();
  if (!options_.write)
    options_.write = [](const std::string& path, const std::string& contents) {
      write_file(path, contents);
    };
}

RunReport::RunReport(Layer& model, const Optimizer& optimizer, RunReportOptions options)
    : RunReport(nullptr, model, optimizer, std::move(options)) {}

RunReport::RunReport(TrainingRun& run, RunReportOptions options)
    : RunReport(&run, run.parts().model, run.parts().optimizer, std::move(options)) {
  if (!run.is_first_rank()) return;
  const Timer timer(cost_);
  if (const LanguageModel* const model = model_of_text(&run)) {
    const TokenSequence* const training = text_behind(&run.parts().loader);
    const TokenSequence* const validation = text_behind(run.parts().validation);
    uniform_loss_ = std::log(static_cast<double>(model->vocabulary()));
    unigram_loss_ = unigram_loss(*training, validation != nullptr ? *validation : *training,
                                 model->vocabulary());
  }
  run.add(*this);
}

RunReport::~RunReport() {
  if (run_ != nullptr) run_->remove(*this);
}

void RunReport::after_backward(const Tape& tape) {
  const Timer timer(cost_);
  attempt(fault_, [&] {
    if (own_rows_) own_rows_->after_backward(tape);
  });
  if (run_ != nullptr) return;
  for (const Tape::Lookup& lookup : tape.lookups())
    if (!rows_.tables().empty() && lookup.table == &rows_.tables().front().table())
      lookups_ += lookup.ids.size();
}

void RunReport::before_update() {
  const Timer timer(cost_);
  attempt(fault_, [&] {
    if (own_rows_) own_rows_->before_update(steps_ + 1, optimizer_);
    measure_norm();
  });
  changed_before_ = changes() != changes_;
  changes_ = changes();
  awaits_step_ = true;
}

// How often the model's values have changed.
std::uint64_t RunReport::changes() const {
  std::uint64_t sum = 0;
  for (const Parameter* parameter : model_.parameters()) sum += parameter->version();
  return sum;
}

void RunReport::measure_norm() {
  rows_now_ = rows_.tables().empty() ? 0 : rows_.tables().front().rows_now();
  rate_now_ = optimizer_.learning_rate();  // a schedule goes on before the step is over
  const std::size_t every =
      run_ == nullptr ? kNormSteps : std::max<std::size_t>(1, run_->steps_in_all() / kNorms);
  const std::size_t step = steps_ + 1;
  if (step % every != 0 && step != 1) return;
  const double most = run_ == nullptr ? 0 : run_->next_clip_norm();  // 0 for no clipping
  const double norm = gradient_norm(model_.parameters_on_tape());
  norm_step_.push_back(step);
  norm_.push_back(norm);
  clipped_.push_back(most > 0 ? std::min(norm, most) : norm);
}

void RunReport::after_step(double loss) {
  const Timer timer(cost_);
  ++steps_;
  const bool is_late = changed_before_ && changes() == changes_;
  const bool was_told = std::exchange(awaits_step_, false);
  changes_ = changes();
  attempt(fault_, [&] {
    check_state(was_told && !is_late, "before_update() was not called before step ", steps_,
                " was made: call it between backward and the optimizer's step()");
  });
  attempt(fault_, [&] {
    if (own_rows_ && was_told && run_ != nullptr)
      own_rows_->after_step(*run_, {.loss = loss, .records = {}});
    if (own_rows_ && was_told && run_ == nullptr) own_rows_->after_update(steps_);
    const std::chrono::duration<double> seconds = Clock::now() - start_;
    add_point(loss,
              run_ != nullptr ? run_->speed() : static_cast<double>(lookups_) / seconds.count());
  });
  if (run_ == nullptr || run_->makes_more_steps()) write_if_due();
}

void RunReport::after_step(const TrainingRun& run, const StepResult& result) {
  if (!result.loss) return;
  const TrainingParts& parts = run.parts();
  const std::size_t first = (run.steps() - 1) % run.steps_per_epoch() * parts.accumulate;
  const std::size_t end = std::min(first + parts.accumulate, parts.loader.batches());
  for (std::size_t batch = first; batch < end; ++batch)
    lookups_ += parts.loader.rows(batch) * run.unit().per_example;
  after_step(*result.loss);
}

void RunReport::add_point(double loss, double speed) {
  loss_sum_ += loss;
  row_sum_ += static_cast<double>(rows_now_);
  if (++summed_ < steps_a_point_) return;
  curves_.step.push_back(steps_);
  curves_.loss.push_back(loss_sum_ / static_cast<double>(summed_));
  curves_.learning_rate.push_back(rate_now_);
  curves_.speed.push_back(speed);
  curves_.rows.push_back(row_sum_ / static_cast<double>(summed_));
  loss_sum_ = row_sum_ = 0;
  summed_ = 0;
  if (curves_.step.size() == kMostPoints) halve_curves();
}

void RunReport::halve_curves() {
  for (auto* curve : {&curves_.loss, &curves_.learning_rate, &curves_.speed, &curves_.rows}) {
    for (std::size_t i = 0; i < curve->size() / 2; ++i)
      (*curve)[i] = ((*curve)[2 * i] + (*curve)[2 * i + 1]) / 2;
    curve->resize(curve->size() / 2);
  }
  for (std::size_t i = 0; i < curves_.step.size() / 2; ++i)
    curves_.step[i] = curves_.step[2 * i + 1];
  curves_.step.resize(curves_.step.size() / 2);
  steps_a_point_ *= 2;
}

// Writes what there is, unless the last time was so recent that it would slow the run.
void RunReport::write_if_due() {
  const auto begin = Clock::now();
  if (!write_fault_.empty() || begin - last_end_ < kShareOfTime * last_cost_) return;
  attempt(write_fault_, [&] { write(false); });
  last_end_ = Clock::now();
  last_cost_ = last_end_ - begin;
}

void RunReport::at_end() {
  write_fault_.clear();  // what could not be written may be by now
  attempt(write_fault_, [&] { write(true); });
}

void RunReport::write(bool at_end) {
  const std::string data = this->data(at_end);
  if (!options_.page.empty()) options_.write(options_.page, report_page(data));
  if (!options_.data.empty()) options_.write(options_.data, data);
}

// Calls what may throw, and keeps what it throws as a fault, if it is the first.
void RunReport::attempt(std::string& fault, const auto& call) {
  try {
    call();
  } catch (const std::exception& error) {
    if (!fault.empty()) return;
    fault = error.what();
    std::cerr << "\nThe report is not complete: " << fault << '\n';
  }
}

std::string RunReport::data(bool at_end) {
  const auto begin = Clock::now();
  const bool whole = at_end && options_.goes_on();
  const bool has_ended = run_ == nullptr || run_->has_ended();
  Json about(options_.about, "RunReportOptions::about");
  about["first_step"] = first_step_;
  about["parameters"] = parameters_json(model_);
  if (run_ != nullptr) about["unit"] = run_->unit().name;
  about["state"] = !at_end ? "running" : whole && has_ended ? "finished" : "stopped";
  Json report{{"format", "rowgrad report 1"}, {"run", std::move(about)}};
  report["curves"] = {{"step", curves_.step},
                      {"loss", rounded_all(curves_.loss)},
                      {"learning_rate", rounded_all(curves_.learning_rate)},
                      {"speed", rounded_all(curves_.speed)},
                      {"rows", rounded_all(curves_.rows)}};
  report["norms"] = {
      {"step", norm_step_}, {"norm", rounded_all(norm_)}, {"clipped", rounded_all(clipped_)}};
  if (options_.samples != nullptr) {
    report["samples"] = Json::array();
    for (const Sample& sample : *options_.samples)
      report["samples"].push_back({{"steps", sample.steps}, {"text", sample.text}});
  }
  report["tables"] = Json::array();
  for (const TableHistory& table : rows_.tables())
    report["tables"].push_back(table_json(table, steps_, options_.tokenizer));
  if (Json vocabulary = vocabulary_json(model_, rows_, options_.tokenizer);
      !vocabulary.elements().empty())
    report["vocabulary"] = std::move(vocabulary);
  if (dynamic_cast<const WordTokenizer*>(options_.tokenizer) != nullptr) report["words"] = true;
  if (dynamic_cast<const TextModel*>(&model_) != nullptr) report["loss_unit"] = "nats";
  if (run_ != nullptr) add_losses(report);
  if (whole) attempt(fault_, [&] { add_analysis(report); });
  if (!fault_.empty()) report["run"]["fault"] = fault_;
  const auto now = Clock::now();
  const auto seconds = [](Clock::duration time) {
    return rounded(std::chrono::duration<double>(time).count());
  };
  const Clock::duration of_rows = own_rows_ ? Clock::duration() : rows_.cost();
  report["run"]["seconds"] = seconds(now - start_);
  report["run"]["report_seconds"] = seconds(cost_ + of_rows + (now - begin));
  return report.dump() + "\n";
}

// What the model, and its text, look like at the end.
void RunReport::add_analysis(Json& report) const {
  for (const TableHistory& table : rows_.tables())
    if (table.kind() == RowKind::kToken && !table.ids().empty())
      report["embeddings"] = embeddings_of(table);
  if (model_of_text(run_) != nullptr) add_reading(report);
}

void RunReport::add_losses(Json& report) const {
  if (model_of_text(run_) != nullptr)
    report["baselines"] = {{"uniform", rounded(uniform_loss_)},
                           {"unigram", rounded(unigram_loss_)}};
  if (run_->parts().validation != nullptr || run_->parts().evaluation.every > 0)
    report["evaluations"] = evaluations_json(*run_, more_records_);
}

// What the model makes of its text.
void RunReport::add_reading(Json& report) const {
  LanguageModel& model = *model_of_text(run_);
  report["text"] = text_json(
      model, *text_behind(&run_->parts().loader), text_behind(run_->parts().validation),
      options_.goes_on, std::clamp(lookups_ / kTrainedAToken, kFewestRead, kMostRead), tables());
  const Ids& prompt = options_.prompt;
  if (auto* gpt = dynamic_cast<GptModel*>(&model); gpt != nullptr && prompt.size() > 0)
    report["attention"] = attention_json(
        *gpt,
        to_ids(std::span(prompt.data(), std::min({prompt.size(), kMostPrompt, gpt->context()}))),
        tables());
}

}  // namespace rowgrad
