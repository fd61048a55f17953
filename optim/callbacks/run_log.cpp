#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iostream>
#include <random>

#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kLogBegin = R"({"event":"run","step":)";
constexpr std::string_view kLogFormat = R"(,"format":"rowgrad log 1")";  // follows the step
constexpr std::array kOwnEvents{"run", "curves", "norms", "table", "rows", "end"};
constexpr int kFlushShare = 100;  // writing takes at most 1/100 of the time
constexpr std::uint64_t kPoints = 2048;
constexpr std::uint64_t kFrames = 20;
constexpr std::size_t kNorms = 200;     // approximate number of gradient norms in a run
constexpr std::size_t kNormSteps = 10;  // minimum steps between norms if the run has no length

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

double in_seconds(RowHistory::Timer::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

bool is_run_log(std::string_view text) {
  const std::size_t step = std::min(kLogBegin.size(), text.size());
  const std::size_t end = std::min(text.find(',', step), text.size());  // end of the step
  return text.starts_with(kLogBegin) && text.substr(end).starts_with(kLogFormat);
}

RunLog::RunLog(TrainingRun* run, Layer& model, const Optimizer& optimizer,
               const std::filesystem::path& path, RunLogOptions options)
    : run_(run),
      model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      rows_(options_.rows != nullptr
                ? *options_.rows
                : own_rows_.emplace(model, run != nullptr ? run->tables() : nullptr)) {
  Json(options_.about, "RunLogOptions::about").members();
  if (run != nullptr && !run->is_first_rank()) return;
  file_.emplace(path);
  check_runtime(file_->first_line().empty() || is_run_log(file_->first_line()), path.string(),
                ": not the log of a run, expected a new file, an empty file or a log");
  std::random_device random;
  id_ = checksum_digits(std::uint64_t{random()} << 32 | random());
}

RunLog::RunLog(TrainingRun& run, const std::filesystem::path& path, RunLogOptions options)
    : RunLog(&run, run.options().model, run.options().optimizer, path, std::move(options)) {
  if (file_) run.add(*this);
}

RunLog::RunLog(Layer& model, const Optimizer& optimizer, const std::filesystem::path& path,
               RunLogOptions options)
    : RunLog(nullptr, model, optimizer, path, std::move(options)) {}

// Does not write rows, because the other ranks would have to take part in fetching rows of sharded
// tables.
RunLog::~RunLog() {
  if (run_ != nullptr) run_->remove(*this);
  flush();
  if (!is_ended_) write_end(run_ != nullptr && run_->has_ended());
}

// --- Records ------------------------------------------------------------------------------------

// Runs `call` and returns true if it does not throw. Stores and prints the first exception.
bool RunLog::attempt(const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    if (!fault_.empty()) return false;
    fault_ = error.what();
    std::cerr << "\nThe log of the run is incomplete: " << fault_ << '\n';
    return false;
  }
}

void RunLog::put(std::string_view event, std::uint64_t step, const Json& data) {
  const std::string members = data.dump().substr(1);
  file_->append(concat("{\"event\":", json_string(event), ",\"step\":", step,
                       event == "run" ? kLogFormat : "", members == "}" ? "" : ",", members));
}

bool RunLog::write(std::string_view event, const Json& data) {
  if (!file_) return false;
  return attempt([&] {
    if (!has_begun_) {
      file_->truncate(begin_);
      if (!continues()) put("run", step(), header());
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
  Json header{{"about", Json(options_.about, "RunLogOptions::about")},
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

// Returns the time of the run so far.
double RunLog::seconds() const {
  return counts_.seconds + in_seconds(Timer::Clock::now() - start_);
}

// Returns the time that the log and the history have taken.
double RunLog::log_seconds() const {
  const Timer::Clock::duration of_rows = own_rows_ ? Timer::Clock::duration() : rows_.cost();
  return counts_.log_seconds + in_seconds(cost_ + of_rows);
}

void RunLog::add_times(Json& data) const {
  data["seconds"] = rounded(seconds());
  data["log_seconds"] = rounded(log_seconds());
}

void RunLog::add(std::string_view event, const Json& data) {
  check_argument(std::ranges::count(kOwnEvents, event) == 0, "RunLog::add: the event ",
                 in_quotes(event), " is reserved for the log, expected another event");
  check_argument(data.dump().front() == '{', "RunLog::add: the data of ", in_quotes(event),
                 " are not a JSON object, expected one");
  for (const char* own : {"event", "step", "sum"})
    check_argument(data.find(own) == nullptr, "RunLog::add: the data of ", in_quotes(event),
                   " have the member ", in_quotes(own), ", which is reserved for the log");
  write(event, data);
}

void RunLog::flush(std::string_view event, Json& points) {
  if (points.find("steps")->elements().empty()) return;
  add_times(points);
  if (write(event, points)) points = {{"steps", Json::array()}};
}

void RunLog::flush() {
  const auto begin = Timer::Clock::now();
  flush("curves", curves_);
  flush("norms", norms_);
  const auto end = Timer::Clock::now();
  next_flush_ =
      end + std::max<Timer::Clock::duration>(std::chrono::seconds(1), kFlushShare * (end - begin));
}

// --- Steps --------------------------------------------------------------------------------------

void RunLog::after_backward(const Tape& tape) {
  const Timer timer(cost_);
  if (own_rows_) attempt([&] { own_rows_->after_backward(tape); });
  if (run_ != nullptr || rows_.tables().empty()) return;
  for (const Tape::Lookup& lookup : tape.lookups())
    if (lookup.table == &rows_.tables().front().table()) counts_.lookups += lookup.ids.size();
}

// Returns the number of changes to the model's parameters.
std::uint64_t RunLog::changes() const {
  std::uint64_t sum = 0;
  for (const Parameter* parameter : model_.parameters()) sum += parameter->version();
  return sum;
}

void RunLog::before_update() {
  const Timer timer(cost_);
  const std::uint64_t next = step() + 1;
  if (own_rows_) attempt([&] { own_rows_->before_update(next, optimizer_); });
  rate_now_ = optimizer_.learning_rate();  // the schedule steps before after_step()
  if (run_ == nullptr) is_late_ = changes() != std::exchange(changes_, changes());
  awaits_step_ = true;
  is_ended_ = false;
  attempt([&] { measure_norm(next); });
}

void RunLog::measure_norm(std::uint64_t step) {
  const std::size_t steps = run_ == nullptr ? kNoLimit : run_->total_steps();
  const std::uint64_t every = std::max<std::uint64_t>(
      1, steps != kNoLimit ? steps / kNorms
                           : kNormSteps * std::bit_floor(step / (kNormSteps * kNorms) | 1));
  if (step % every != 0 && step > 1) return;
  const double limit = run_ == nullptr ? 0 : run_->next_clip_norm();  // 0: no limit
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
    check_state(is_told && !is_late, "RunLog: before_update() was not called before step ", steps_,
                ", expected a call between backward and the optimizer's step()");
    if (own_rows_) own_rows_->after_update(steps_);
  });
  attempt([&] { end_step(loss); });
}

void RunLog::after_step(const TrainingRun& run, const StepResult& result) {
  const Timer timer(cost_);
  awaits_step_ = false;
  if (own_rows_) attempt([&] { own_rows_->after_step(run, result); });
  if (result.loss) attempt([&] { end_step(*result.loss); });
  if (!result.records.empty()) flush();
  for (const TrainingRecord& record : result.records) {
    Json data{{"training_loss", record.training_loss}, {"validation_loss", record.validation_loss}};
    if (record.training_accuracy) data["training_accuracy"] = *record.training_accuracy;
    if (record.validation_accuracy) data["validation_accuracy"] = *record.validation_accuracy;
    if (record.ends_epoch()) data["epoch"] = record.epoch;
    add("evaluation", data);
  }
}

void RunLog::end_step(double loss) {
  counts_.loss_sum += loss;
  counts_.row_sum +=
      rows_.tables().empty() ? 0 : static_cast<double>(rows_.tables().front().rows_in_step());
  if (++counts_.summed == counts_.steps_a_point) {
    const auto count = static_cast<double>(counts_.summed);
    const double speed =
        run_ != nullptr ? run_->speed() : static_cast<double>(counts_.lookups) / seconds();
    curves_["steps"].push_back(step());
    curves_["loss"].push_back(rounded(counts_.loss_sum / count));
    curves_["learning_rate"].push_back(rounded(rate_now_));
    curves_["speed"].push_back(rounded(speed));
    curves_["rows"].push_back(rounded(counts_.row_sum / count));
    counts_.loss_sum = counts_.row_sum = 0;
    counts_.summed = 0;
    if (++counts_.points % kPoints == 0) counts_.steps_a_point *= 2;
  }
  if (is_frame()) write_rows(false);
  if (Timer::Clock::now() > next_flush_) flush();
}

void RunLog::at_end() {
  const Timer timer(cost_);
  flush();
  const bool whole = run_ == nullptr || run_->has_ended() || run_->is_stopped();
  if (whole || counts_.last_frame < step()) write_rows(whole);
  write_end(run_ == nullptr || run_->has_ended());
}

// A run whose last step did not reach after_step() has failed.
void RunLog::write_end(bool finished) {
  Json data{{"finished", finished && !awaits_step_}};
  add_times(data);
  write("end", data);
  is_ended_ = true;
}

// --- Rows ---------------------------------------------------------------------------------------

// Returns true after about each twentieth of the run, in whole steps or epochs. If the length of
// the run is unknown, the distance between frames doubles from time to time.
bool RunLog::is_frame() const {
  std::uint64_t every = 1;
  if (run_ != nullptr) {
    const std::size_t steps = run_->options().steps, epochs = run_->options().epochs;
    every = steps > 0 ? std::max<std::uint64_t>(1, steps / kFrames) : run_->steps_per_epoch();
    if (steps == 0 && epochs != kNoLimit) every *= (epochs + kFrames - 1) / kFrames;
  }
  const std::uint64_t number = step() / every;
  return step() % every == 0 && (number <= kFrames || number % (std::bit_floor(number) / 4) == 0);
}

void RunLog::write_rows(bool whole) {
  for (const TableHistory& table : rows_.tables()) attempt([&] { write_rows(table, whole); });
  counts_.last_frame = step();
}

void RunLog::write_rows(const TableHistory& table, bool whole) {
  const std::string& name = table.table().name();
  if (!written_.contains(name) && !write("table", table_record(table))) return;
  WrittenSteps& written = written_[name];
  const std::vector<std::size_t> indices = places_to_write(table, written, whole);
  const Json data = rows_record(table, indices,
                                {.step = step(),
                                 .since = counts_.last_frame,
                                 .whole = whole,
                                 .tokenizer = options_.tokenizer});
  if (!write("rows", data)) return;
  written.resize(table.ids().size(), 0);
  for (const std::size_t index : indices)
    written[index] = static_cast<std::int64_t>(table.row(index).steps);
}

// --- State --------------------------------------------------------------------------------------

void RunLog::for_each_count(auto& counts, const auto& visit) {
  visit("last_frame", counts.last_frame);
  visit("steps_a_point", counts.steps_a_point);
  visit("points", counts.points);
  visit("summed", counts.summed);
  visit("loss_sum", counts.loss_sum);
  visit("row_sum", counts.row_sum);
  visit("lookups", counts.lookups);
  visit("seconds", counts.seconds);
  visit("log_seconds", counts.log_seconds);
}

StateDict RunLog::state_dict() {
  check_state(!awaits_step_, "RunLog::state_dict: called during step ", step() + 1,
              ", expected a call after the log's after_step(); add the log to the run before the "
              "callback that saves it");
  flush();
  if (file_) attempt([&] { file_->sync(); });
  StateDict state;
  state.put("id", id_);
  state.put("bytes", has_begun_ ? file_->bytes() : begin_);
  state.put("step", step());
  Counts counts = counts_;
  counts.seconds = seconds();
  counts.log_seconds = log_seconds();
  for_each_count(counts, [&](const char* name, auto count) { state.put(name, count); });
  for (const auto& [name, steps] : written_) state.put("written." + name, steps);
  if (own_rows_) state.put("rows", own_rows_->state_dict());
  return state;
}

void RunLog::load_state_dict(const StateDict& state) {
  check_state(
      !has_begun_,
      "RunLog::load_state_dict: the log has records, expected a call before the first step");
  Counts counts;
  for_each_count(counts, [&](const char* name, auto& count) {
    if constexpr (std::is_same_v<decltype(count), double&>)
      count = state.number(name);
    else
      count = state.count(name);
  });
  check_argument(counts.steps_a_point > counts.summed, "RunLog: the state has ", counts.summed,
                 " steps since the last point, expected fewer than ", counts.steps_a_point);
  const std::uint64_t saved_step = state.count("step");
  check_argument(run_ == nullptr || run_->steps() == saved_step, "RunLog: the state is from step ",
                 saved_step, ", but the run is at step ", step(),
                 "; load the state of the run first");
  const std::string& id = state.string("id");
  const std::uint64_t bytes = state.count("bytes");
  std::map<std::string, std::vector<std::int64_t>> written;
  const StateDict tables = state.part("written");
  for (const std::string& name : tables.names()) written[name] = tables.integers(name);
  if (own_rows_) own_rows_->load_state_dict(state.part("rows"));
  counts_ = counts;
  steps_ = saved_step;
  const bool file_has_log =
      file_ && bytes <= file_->bytes() &&
      file_->first_line().find(concat("\"id\":\"", id, '"')) != std::string::npos;
  if (!file_has_log || bytes == 0) return;  // a new log starts, and writes all rows again
  begin_ = bytes;
  id_ = id;
  written_ = std::move(written);
}

}  // namespace rowgrad
