#include <algorithm>
#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>

#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/callbacks/row_list.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kLogBegin = R"({"event":"run","step":)";
constexpr const char* kLogFormat = "rowgrad log 1";
constexpr std::uint64_t kPoints = 2048;
constexpr std::uint64_t kFrames = 20;
constexpr std::size_t kNorms = 200;       // of gradients in a run, about
constexpr std::size_t kNormSteps = 10;    // between these if the length of the run is not known
constexpr std::size_t kMaxRows = 2000;    // in a frame; with reasons, and of n-grams, at the end
constexpr std::size_t kMaxReasons = 100;  // in a frame
constexpr std::size_t kMaxLabels = std::size_t{1} << 18;        // for which a table has them all
constexpr double kNever = -std::numeric_limits<double>::min();  // the path of an unwritten row

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

// [row, path, [step, lookups, gradient norm, moved, place, ids of the text], …]
Json reason_json(std::int32_t row, double path, const std::vector<TableHistory::Step>& steps) {
  Json reason = Json::array();
  reason.push_back(row);
  reason.push_back(rounded(path));
  for (const TableHistory::Step& step : steps) {
    Json one = Json::array();
    one.push_back(step.step);
    one.push_back(step.lookups);
    one.push_back(rounded(step.gradient_norm));
    one.push_back(rounded(step.moved));
    if (!step.text.empty()) one.push_back(step.place);
    if (!step.text.empty()) one.push_back(std::vector(step.text.begin(), step.text.end()));
    reason.push_back(std::move(one));
  }
  return reason;
}

// The places with the largest values, these first.
std::vector<std::size_t> largest(std::vector<std::size_t> places, std::size_t most,
                                 const auto& value_of) {
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(std::min(places.size(), most));
  std::partial_sort(places.begin(), end, places.end(), [&](std::size_t a, std::size_t b) {
    const double of_a = value_of(a), of_b = value_of(b);
    return of_a > of_b || (of_a == of_b && a < b);
  });
  places.erase(end, places.end());
  return places;
}

std::vector<std::size_t> counted_to(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

double in_seconds(RowHistory::Timer::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

bool is_run_log(std::string_view text) {
  return text.starts_with(kLogBegin) &&
         text.find(concat("\"format\":\"", kLogFormat, '"')) != std::string_view::npos;
}

RunLog::RunLog(TrainingRun* run, Layer& model, const Optimizer& optimizer,
               const std::filesystem::path& path, RunLogOptions options)
    : run_(run),
      model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      file_(path),
      rows_(options_.rows != nullptr
                ? *options_.rows
                : own_rows_.emplace(model, run != nullptr ? run->tables() : nullptr)) {
  check_runtime(file_.first_line().empty() || is_run_log(file_.first_line()), path.string(),
                ": not the log of a run, expected a new or empty file, or a log to replace");
  Json(options_.about, "RunLogOptions::about").members();
  std::random_device random;
  id_ = checksum_digits(std::uint64_t{random()} << 32 | random());
}

RunLog::RunLog(TrainingRun& run, const std::filesystem::path& path, RunLogOptions options)
    : RunLog(&run, run.parts().model, run.parts().optimizer, path, std::move(options)) {
  run.add(*this);
}

RunLog::RunLog(Layer& model, const Optimizer& optimizer, const std::filesystem::path& path,
               RunLogOptions options)
    : RunLog(nullptr, model, optimizer, path, std::move(options)) {}

RunLog::~RunLog() {
  flush();
  if (run_ != nullptr) run_->remove(*this);
}

// --- Records ------------------------------------------------------------------------------------

// Keeps what the call throws as a fault, if it is the first one. Returns true if it throws nothing.
bool RunLog::attempt(const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    if (!fault_.empty()) return false;
    fault_ = error.what();
    std::cerr << "\nThe log of the run is not complete: " << fault_ << '\n';
    return false;
  }
}

void RunLog::put(std::string_view event, std::uint64_t step, const Json& data) {
  const std::string members = data.dump().substr(1);
  file_.append(concat("{\"event\":", json_string(event), ",\"step\":", step,
                      members == "}" ? "" : ",", members));
}

bool RunLog::write(std::string_view event, const Json& data) {
  return attempt([&] {
    if (!has_begun_) {
      file_.truncate(continues_ ? file_.whole_bytes() : 0);
      continues_ ? put("resume", loaded_step_, {{"id", id_}}) : put("run", step(), header());
      has_begun_ = true;
    }
    if (!fault_.empty() && !fault_is_noted_) {
      put("fault", step(), {{"text", fault_}});
      fault_is_noted_ = true;
    }
    put(event, step(), data);
  });
}

Json RunLog::header() const {
  Json header{{"format", kLogFormat},
              {"about", Json(options_.about, "RunLogOptions::about")},
              {"first_step", rows_.first_step().value_or(step())},
              {"id", id_},
              {"parameters", parameters_json(model_)}};
  if (run_ != nullptr) header["unit"] = run_->unit().name;
  if (const auto* model = dynamic_cast<const LanguageModel*>(&model_))
    header["tokens"] = model->vocabulary();
  if (dynamic_cast<const TextModel*>(&model_) != nullptr) header["loss_unit"] = "nats";
  if (options_.tokenizer == nullptr) return header;
  header["words"] = dynamic_cast<const WordTokenizer*>(options_.tokenizer) != nullptr;
  Json& vocabulary = header["vocabulary"] = Json::array();
  for (std::size_t id = 0; id < options_.tokenizer->size(); ++id)
    vocabulary.push_back(shown_bytes(options_.tokenizer->token(static_cast<std::int32_t>(id))));
  return header;
}

// Adds the time that the run has taken so far, and what the log and the history took of it.
void RunLog::add_times(Json& data) const {
  const Timer::Clock::duration of_rows = own_rows_ ? Timer::Clock::duration() : rows_.cost();
  data["seconds"] = rounded(seconds_before_ + in_seconds(Timer::Clock::now() - start_));
  data["log_seconds"] = rounded(cost_before_ + in_seconds(cost_ + of_rows));
}

void RunLog::add(std::string_view event, const Json& data) { write(event, data); }

void RunLog::flush(std::string_view event, Json& points) {
  if (points.find("steps")->elements().empty()) return;
  add_times(points);
  if (write(event, points)) points = {{"steps", Json::array()}};
}

void RunLog::flush() {
  last_flush_ = Timer::Clock::now();
  flush("curves", curves_);
  flush("norms", norms_);
}

// --- Steps --------------------------------------------------------------------------------------

void RunLog::after_backward(const Tape& tape) {
  const Timer timer(cost_);
  if (own_rows_) attempt([&] { own_rows_->after_backward(tape); });
  if (run_ != nullptr || rows_.tables().empty()) return;
  for (const Tape::Lookup& lookup : tape.lookups())
    if (lookup.table == &rows_.tables().front().table()) lookups_ += lookup.ids.size();
}

// How often the values of the model have changed.
std::uint64_t RunLog::changes() const {
  std::uint64_t sum = 0;
  for (const Parameter* parameter : model_.parameters()) sum += parameter->version();
  return sum;
}

void RunLog::before_update() {
  const Timer timer(cost_);
  const std::uint64_t next = step() + 1;
  if (own_rows_) attempt([&] { own_rows_->before_update(next, optimizer_); });
  rate_now_ = optimizer_.learning_rate();  // a schedule goes on before the step is over
  if (run_ == nullptr) is_late_ = changes() != std::exchange(changes_, changes());
  awaits_step_ = true;
  attempt([&] { measure_norm(next); });
}

void RunLog::measure_norm(std::uint64_t step) {
  const std::size_t every =
      run_ == nullptr ? kNormSteps : std::max<std::size_t>(1, run_->steps_in_all() / kNorms);
  if (step % every != 0 && step > 1) return;
  const double limit = run_ == nullptr ? 0 : run_->next_clip_norm();  // 0 for none
  const double norm = gradient_norm(model_.parameters_on_tape());
  norms_["steps"].push_back(step);
  norms_["norm"].push_back(rounded(norm));
  norms_["clipped"].push_back(rounded(limit > 0 ? std::min(norm, limit) : norm));
}

void RunLog::after_step(double loss) {
  const Timer timer(cost_);
  ++steps_;
  attempt([&] {
    const bool is_told = std::exchange(awaits_step_, false);
    const bool is_late = changes() == std::exchange(changes_, changes()) && is_late_;
    check_state(is_told && !is_late, "before_update() was not called before step ", steps_,
                " was made: call it between backward and the optimizer's step()");
    if (own_rows_) own_rows_->after_update(steps_);
  });
  attempt([&] { end_step(loss); });
}

void RunLog::after_step(const TrainingRun& run, const StepResult& result) {
  const Timer timer(cost_);
  if (own_rows_) attempt([&] { own_rows_->after_step(run, result); });
  if (result.loss) attempt([&] { end_step(*result.loss); });
  if (!result.records.empty()) flush();
  for (const TrainingRecord& record : result.records) {
    Json data{{"training_loss", record.training_loss}, {"validation_loss", record.validation_loss}};
    if (record.ends_epoch()) data["epoch"] = record.epoch;
    add("evaluation", data);
  }
}

void RunLog::end_step(double loss) {
  loss_sum_ += loss;
  row_sum_ += rows_.tables().empty() ? 0 : static_cast<double>(rows_.tables().front().rows_now());
  if (++summed_ == steps_a_point_) {
    const auto count = static_cast<double>(summed_);
    const double speed =
        run_ != nullptr ? run_->speed()
                        : static_cast<double>(lookups_) / in_seconds(Timer::Clock::now() - start_);
    curves_["steps"].push_back(step());
    curves_["loss"].push_back(rounded(loss_sum_ / count));
    curves_["learning_rate"].push_back(rounded(rate_now_));
    curves_["speed"].push_back(rounded(speed));
    curves_["rows"].push_back(rounded(row_sum_ / count));
    loss_sum_ = row_sum_ = 0;
    summed_ = 0;
    if (++points_ % kPoints == 0) steps_a_point_ *= 2;
  }
  if (is_frame()) write_rows(false);
  if (!has_begun_ || Timer::Clock::now() - last_flush_ > std::chrono::seconds(1)) flush();
}

void RunLog::at_end() {
  const Timer timer(cost_);
  flush();
  write_rows(true);
  Json data{{"finished", run_ == nullptr || run_->has_ended()}};
  add_times(data);
  write("end", data);
}

// --- Rows ---------------------------------------------------------------------------------------

// Returns true after each epoch or each twentieth of the steps. If the length of the run is not
// known, distances double.
bool RunLog::is_frame() const {
  std::uint64_t every = 1;
  if (run_ != nullptr) {
    const std::size_t steps = run_->parts().steps, epochs = run_->parts().epochs;
    every = steps > 0 ? std::max<std::uint64_t>(1, steps / kFrames) : run_->steps_per_epoch();
    if (steps == 0 && epochs != kNoLimit) every *= (epochs + kFrames - 1) / kFrames;
  }
  const std::uint64_t number = step() / every;
  return step() % every == 0 && (number <= kFrames || number % (std::bit_floor(number) / 4) == 0);
}

void RunLog::write_rows(bool whole) {
  for (const TableHistory& table : rows_.tables()) attempt([&] { write_rows(table, whole); });
  last_frame_ = step();
}

// Writes the rows that have changed since they were written; if they are too many, the ones that
// moved farthest since then; at the end, all rows. Some have the steps that moved them farthest.
void RunLog::write_rows(const TableHistory& table, bool whole) {
  using Row = TableHistory::Row;
  const std::string& name = table.table().name();
  const Shape& shape = table.table().shape();
  const bool has_labels = !table.labels().empty();
  if (!paths_.contains(name)) {
    Json about{{"table", name},
               {"kind", table.kind() == RowKind::kToken ? "token" : table.noun()},
               {"rows", shape[0]},
               {"width", shape[1]}};
    if (table.ngrams() != nullptr) about["ngrams"] = true;
    if (has_labels && shape[0] <= kMaxLabels) about["labels"] = table.labels();
    if (!write("table", about)) return;
  }
  std::vector<double>& paths = paths_[name];
  paths.resize(table.ids().size(), kNever);
  const auto change = [&](std::size_t place) { return table.row(place).path - paths[place]; };
  std::vector<std::size_t> places = counted_to(paths.size());
  if (!whole) std::erase_if(places, [&](std::size_t place) { return !(change(place) > 0); });
  if (!whole && places.size() > kMaxRows) places = largest(places, kMaxRows, change);
  if (whole && table.ngrams() != nullptr && places.size() > kMaxRows) {
    const std::vector<double> moved = table.moved();
    places = largest(places, kMaxRows, [&](std::size_t place) { return moved[place]; });
  }
  std::ranges::sort(places, {}, [&](std::size_t place) { return table.ids()[place]; });
  const TableHistory::Frame frame = table.now(step(), places);
  const auto counts = [&](std::uint64_t Row::*count) {
    std::vector<std::uint64_t> all;
    for (const Row& row : frame.rows) all.push_back(row.*count);
    return pack_counts(all);
  };
  const auto numbers = [&](double Row::*number) {
    std::vector<double> all;
    for (const Row& row : frame.rows) all.push_back(row.*number);
    return pack_numbers(all);
  };
  std::vector<std::uint64_t> distances;  // between the numbers of rows
  std::vector<double> norms;
  std::uint64_t before = 0;
  for (const std::size_t place : places) {
    const auto id = static_cast<std::uint64_t>(table.ids()[place]);
    distances.push_back(id - std::exchange(before, id));
    norms.push_back(std::sqrt(table.row(place).squares));
  }
  Json data{{"table", name},
            {"touched", table.touched()},
            {"followed", paths.size()},
            {"rows", pack_counts(distances)},
            {"lookups", counts(&Row::lookups)},
            {"steps", counts(&Row::steps)},
            {"last", counts(&Row::last)},
            {"norm", pack_numbers(norms)},
            {"moved", pack_numbers(frame.moved)}};
  if (whole) data["whole"] = true;
  if (table.is_dense()) {
    data["dense"] = true;
  } else {
    data["momentum"] = numbers(&Row::momentum);
    data["decay"] = numbers(&Row::decay);
  }
  if (table.has_unknown_decay()) data["coupled_decay"] = true;
  if (const auto kept = table.kept_without_gradient()) data["decayed"] = rounded(*kept);
  if (table.ngrams() != nullptr || (has_labels && shape[0] > kMaxLabels)) {
    const RowLabels labels(table, options_.tokenizer);
    for (const std::size_t place : places)
      data["labels"].push_back(shown_bytes(labels.of(table.ids()[place])));
  }
  std::vector<std::size_t> explained = counted_to(places.size());
  if (!whole)
    std::erase_if(explained, [&](std::size_t i) {
      return std::ranges::none_of(table.steps(places[i]),
                                  [&](const auto& one) { return one.step > last_frame_; });
    });
  for (const std::size_t i : largest(explained, whole ? kMaxRows : kMaxReasons,
                                     [&](std::size_t one) { return frame.moved[one]; }))
    data["reasons"].push_back(
        reason_json(table.ids()[places[i]], frame.rows[i].path, table.steps(places[i])));
  if (!write("rows", data)) return;
  for (const std::size_t place : places) paths[place] = table.row(place).path;
}

// --- State --------------------------------------------------------------------------------------

// The numbers of the state, by name.
std::map<std::string, std::variant<std::uint64_t*, double*>> RunLog::numbers() {
  return {{"last_frame", &last_frame_},
          {"points", &points_},
          {"steps_a_point", &steps_a_point_},
          {"summed", &summed_},
          {"lookups", &lookups_},
          {"loss_sum", &loss_sum_},
          {"row_sum", &row_sum_},
          {"seconds", &seconds_before_},
          {"log_seconds", &cost_before_}};
}

Checkpoint RunLog::state_dict() {
  flush();
  attempt([&] { file_.sync(); });
  Checkpoint state;
  state.put("id", id_);
  state.put("step", step());
  for (const auto& [name, number] : numbers())
    std::visit([&, key = name](const auto* value) { state.put(key, *value); }, number);
  Json times;
  add_times(times);
  for (const char* name : {"seconds", "log_seconds"}) {
    state.erase(name);
    state.put(name, times.find(name)->number());
  }
  for (const auto& [name, paths] : paths_) state.put("paths." + name, paths);
  if (own_rows_) state.put("rows", own_rows_->state_dict());
  return state;
}

void RunLog::load_state_dict(const Checkpoint& state) {
  check_state(!has_begun_, "RunLog: the log has begun, expected its state before the first step");
  const std::uint64_t steps_a_point = state.count("steps_a_point");
  check_argument(steps_a_point > state.count("summed"), "RunLog: the state contradicts itself");
  loaded_step_ = state.count("step");
  check_argument(run_ == nullptr || run_->steps() == loaded_step_, "RunLog: the state is of step ",
                 loaded_step_, ", but the run is at step ", step(),
                 ", expected the run's own state to be loaded before");
  for (const auto& [name, number] : numbers()) state.number(name);  // throws if one is missing
  if (own_rows_) own_rows_->load_state_dict(state.part("rows"));
  for (const auto& [name, number] : numbers()) {
    if (auto* const count = std::get_if<std::uint64_t*>(&number))
      **count = state.count(name);
    else
      *std::get<double*>(number) = state.number(name);
  }
  const std::string& first = file_.first_line();
  steps_ = loaded_step_;
  continues_ = file_.whole_bytes() > 0 &&
               Json(first, file_.path().string()).find("id")->string() == state.text("id");
  if (!continues_) return;  // and its rows have to be written again
  id_ = state.text("id");
  const Checkpoint paths = state.part("paths");
  for (const std::string& name : paths.names()) paths_[name] = paths.doubles(name);
}

}  // namespace rowgrad
