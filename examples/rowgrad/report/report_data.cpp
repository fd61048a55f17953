#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json_lines.hpp>
#include <rowgrad/examples/rowgrad/report/report_data.hpp>
#include <rowgrad/examples/rowgrad/report/report_page.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMaxRowsShown = std::size_t{1} << 18;  // maximum number of rows on a map
// Maximum number of rows whose steps are shown, and of rows shown of an n-gram memory's table.
constexpr std::size_t kMaxReasons = 2000;

const Json& member(const Json& object, std::string_view name) {
  const Json* const found = object.find(name);
  check_runtime(found != nullptr, "the record has no member ", in_quotes(name));
  return *found;
}

// Returns a number; NaN for null, which stands for a value that is not finite.
double number_or_nan(const Json& number) {
  return number.dump() == "null" ? std::nan("") : number.number();
}

std::vector<double> numbers_in(const Json& array) {
  std::vector<double> numbers;
  for (const Json& number : array.elements()) numbers.push_back(number_or_nan(number));
  return numbers;
}

bool is_true(const Json& object, std::string_view name) {
  const Json* const found = object.find(name);
  return found != nullptr && found->boolean();
}

// The state of a row when it was written.
struct RowState {
  std::uint64_t lookups = 0, steps = 0, last = 0;
  double norm = 0, moved = 0, momentum = 0, decay = 0;
};

// The steps that moved a row.
struct RowReasons {
  double path = 0;
  Json steps = Json::array();
};

class LoggedTable {
 public:
  explicit LoggedTable(const Json& record)
      : name(member(record, "table").string()),
        kind(member(record, "kind").string()),
        is_tokens(is_true(record, "tokens")),
        count(member(record, "rows").whole_number()),
        width(member(record, "width").whole_number()),
        has_ngrams_(is_true(record, "ngrams")) {
    if (const Json* names = record.find("labels")) labels = names->strings();
  }

  void add(std::uint64_t step, const Json& record);
  Json to_json() const;

  std::string name, kind;
  bool is_tokens;
  std::uint64_t count, width;
  std::vector<std::string> labels;  // one for each row, or empty

 private:
  bool has_too_many_ngrams() const { return has_ngrams_ && followed_ > kMaxReasons; }
  bool is_shown_in_part() const {
    return count > kMaxRowsShown || touched_ > followed_ || has_too_many_ngrams();
  }
  std::string title(std::size_t shown) const;
  std::string label_of(std::uint64_t id) const;
  std::vector<std::uint64_t> farthest() const;

  bool has_ngrams_;
  std::uint64_t touched_ = 0, followed_ = 0;
  std::map<std::uint64_t, std::map<std::uint64_t, RowState>> frames_;  // changed rows by step
  std::map<std::uint64_t, RowState> rows_;                             // final state
  std::map<std::uint64_t, std::string> row_labels_;
  std::map<std::uint64_t, RowReasons> reasons_;
  bool dense_ = false, coupled_decay_ = false;
  std::optional<double> decayed_;
};

void LoggedTable::add(std::uint64_t step, const Json& record) {
  const auto counts = [&](const char* column) {
    return unpack_counts(member(record, column).string());
  };
  const auto numbers = [&](const char* column) {
    return unpack_numbers(member(record, column).string());
  };
  touched_ = member(record, "touched").whole_number();
  followed_ = member(record, "followed").whole_number();
  dense_ = is_true(record, "dense");
  coupled_decay_ = is_true(record, "coupled_decay");
  if (const Json* decayed = record.find("decayed")) decayed_ = number_or_nan(*decayed);
  const std::vector<std::uint64_t> distances = counts("rows"), lookups = counts("lookups"),
                                   steps = counts("steps"), last = counts("last");
  const std::vector<double> norm = numbers("norm"), moved = numbers("moved");
  const auto numbers_or_0 = [&](const char* column) {
    return record.find(column) == nullptr ? std::vector<double>(distances.size()) : numbers(column);
  };
  const std::vector<double> momentum = numbers_or_0("momentum"), decay = numbers_or_0("decay");
  for (const std::size_t size : {lookups.size(), steps.size(), last.size(), norm.size(),
                                 moved.size(), momentum.size(), decay.size()})
    check_runtime(size == distances.size(), "a column of ", name, " has ", size,
                  " values, expected ", distances.size());
  const Json* const named = record.find("labels");
  std::map<std::uint64_t, RowState>& frame = frames_[step];
  if (is_true(record, "whole")) rows_.clear();
  std::uint64_t id = 0;
  for (std::size_t i = 0; i < distances.size(); ++i) {
    id += distances[i];
    check_runtime(id < count, "row ", id, " is out of range: ", name, " has ", count, " rows");
    rows_[id] =
        frame[id] = {lookups[i], steps[i], last[i], norm[i], moved[i], momentum[i], decay[i]};
    if (named != nullptr) row_labels_[id] = named->elements().at(i).string();
  }
  const Json* const reasons = record.find("reasons");
  if (reasons == nullptr) return;
  for (const Json& reason : reasons->elements()) {
    const std::vector<Json>& parts = reason.elements();
    RowReasons& here = reasons_[parts.at(0).whole_number()];
    here = {.path = number_or_nan(parts.at(1))};
    for (const Json& step_of_row : std::span(parts).subspan(2)) {
      const std::vector<Json>& values = step_of_row.elements();
      Json one{{"step", values.at(0).whole_number()},
               {"lookups", values.at(1).whole_number()},
               {"norm", number_or_nan(values.at(2))},
               {"moved", number_or_nan(values.at(3))}};
      if (values.size() > 5) {
        one["place"] = values[4].whole_number();
        one["text"] = values[5].whole_numbers();
      }
      here.steps.push_back(std::move(one));
    }
  }
}

// Returns the ids of all rows in the log, sorted by the distance moved, in descending order.
std::vector<std::uint64_t> LoggedTable::farthest() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, row] : rows_) ids.push_back(id);
  std::ranges::stable_sort(ids, std::greater<>(),
                           [&](std::uint64_t id) { return rows_.at(id).moved; });
  return ids;
}

// Returns the title of a table that is shown in part. The title describes the rows shown.
std::string LoggedTable::title(std::size_t shown) const {
  return concat(
      name, ": ", shown < followed_ ? concat("the ", shown, " that moved farthest of ") : "",
      touched_ == followed_ ? "the" : concat("the first ", followed_, " of the"), ' ', touched_,
      dense_ ? " rows that were looked up, of " : " rows with a gradient, of ", count);
}

std::string LoggedTable::label_of(std::uint64_t id) const {
  if (const auto label = row_labels_.find(id); label != row_labels_.end()) return label->second;
  return id < labels.size() ? labels[id] : rows_.contains(id) ? concat(id) : "";
}

// Returns a table as the page shows it. A table that is too large for a map, or only partly
// tracked, becomes a table of the rows with a gradient, whose labels start with their ids. If an
// n-gram memory has too many of these rows, only the rows that moved farthest are shown.
Json LoggedTable::to_json() const {
  const bool is_part = is_shown_in_part();
  const std::vector<std::uint64_t> order = farthest();
  std::vector<std::uint64_t> shown = order;
  if (has_too_many_ngrams()) shown.resize(std::min(shown.size(), kMaxReasons));
  if (!is_part) std::ranges::sort(shown);
  std::map<std::uint64_t, std::uint64_t> numbers;  // ids to rows on the page
  for (const std::uint64_t id : shown) numbers.emplace(id, is_part ? numbers.size() : id);

  Json table{
      {"name", is_part ? title(shown.size()) : name},
      {"kind", is_part ? "row" : kind},
      {"rows", is_part ? shown.size() : count},
      {"width", width},
      {"frames", Json::array()},
      {"idle", {{"rows", Json::array()}, {"momentum", Json::array()}, {"decay", Json::array()}}},
      {"reasons", {{"rows", Json::array()}, {"path", Json::array()}, {"steps", Json::array()}}}};
  for (const auto& [step, rows] : frames_) {
    Json frame{{"step", step}};
    for (const char* column : {"rows", "lookups", "steps", "last", "norm", "moved"})
      frame[column] = Json::array();
    for (const auto& [id, row] : rows) {
      const auto number = numbers.find(id);
      if (number == numbers.end()) continue;
      frame["rows"].push_back(number->second);
      frame["lookups"].push_back(row.lookups);
      frame["steps"].push_back(row.steps);
      frame["last"].push_back(row.last);
      frame["norm"].push_back(row.norm);
      frame["moved"].push_back(row.moved);
    }
    table["frames"].push_back(std::move(frame));
  }
  for (const std::uint64_t id : shown) {
    const RowState& row = rows_.at(id);
    if (dense_ || (row.momentum == 0 && row.decay == 0)) continue;
    table["idle"]["rows"].push_back(numbers.at(id));
    table["idle"]["momentum"].push_back(row.momentum);
    table["idle"]["decay"].push_back(row.decay);
  }
  std::size_t explained = 0;
  for (const std::uint64_t id : order) {
    const auto reasons = reasons_.find(id);
    if (reasons == reasons_.end() || !numbers.contains(id) || explained++ == kMaxReasons) continue;
    table["reasons"]["rows"].push_back(numbers.at(id));
    table["reasons"]["path"].push_back(reasons->second.path);
    table["reasons"]["steps"].push_back(Json(reasons->second.steps.dump(), "reasons"));
  }
  if (is_part) {
    table["ids"] = shown;
    for (const std::uint64_t id : shown) {
      const std::string label = label_of(id);
      table["labels"].push_back(label.empty() || label == concat(id) ? concat(id)
                                                                     : concat(id, ": ", label));
    }
  } else if (!labels.empty()) {
    table["labels"] = labels;
  } else if (has_ngrams_) {
    for (std::uint64_t id = 0; id < count; ++id) table["labels"].push_back(label_of(id));
  }
  if (is_tokens && !is_part) table["tokens"] = true;
  if (dense_) table["dense"] = true;
  if (coupled_decay_) table["coupled_decay"] = true;
  if (decayed_) table["decayed"] = *decayed_;
  return table;
}

// Calls a function with each record of an event. Error messages start with the record's line.
void each_record(auto& records, std::string_view event, const auto& call) {
  for (auto& record : records) {
    if (record.event != event) continue;
    try {
      call(record);
    } catch (const std::exception& error) {
      const std::string_view text = error.what();
      check_runtime(false, text.starts_with(record.place) ? "" : record.place + ": ", text);
    }
  }
}

// Returns curves with equally spaced points. In a long run, the spacing of logged points grows.
Json curves_json(const std::vector<LogRecord>& records) {
  const std::vector<std::string> names{"loss", "learning_rate", "speed", "rows"};
  std::vector<std::uint64_t> steps;
  std::map<std::string, std::vector<double>> all;
  each_record(records, "curves", [&](const LogRecord& record) {
    for (const std::uint64_t step : member(record.data, "steps").whole_numbers())
      steps.push_back(step);
    for (const std::string& name : names) {
      for (const double number : numbers_in(member(record.data, name))) all[name].push_back(number);
      check_runtime(all[name].size() == steps.size(), "the curve ", name, " has ", all[name].size(),
                    " points, expected ", steps.size());
    }
  });
  Json curves{{"step", Json::array()}};
  for (const std::string& name : names) curves[name] = Json::array();
  const std::size_t count = steps.size();
  const std::uint64_t distance = count < 2 ? 1 : steps[count - 1] - steps[count - 2];
  std::map<std::string, double> sums;
  std::uint64_t covered = 0;  // steps since the last point
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t here = count < 2 ? 1
                               : i == 0  ? steps[1] - steps[0]
                                         : steps[i] - steps[i - 1];
    covered += here;
    for (const std::string& name : names) sums[name] += static_cast<double>(here) * all[name].at(i);
    if (covered < distance) continue;
    curves["step"].push_back(steps[i]);
    for (const std::string& name : names) {
      const double mean = sums[name] / static_cast<double>(covered);
      curves[name].push_back(here == covered ? all[name][i] : rounded(mean));
    }
    sums.clear();
    covered = 0;
  }
  return curves;
}

Json norms_json(const std::vector<LogRecord>& records) {
  Json norms{{"step", Json::array()}, {"norm", Json::array()}, {"clipped", Json::array()}};
  each_record(records, "norms", [&](const LogRecord& record) {
    for (const std::uint64_t step : member(record.data, "steps").whole_numbers())
      norms["step"].push_back(step);
    for (const char* name : {"norm", "clipped"})
      for (const double number : numbers_in(member(record.data, name)))
        norms[name].push_back(number);
  });
  return norms;
}

std::uint64_t steps_of(const LogRecord& record) {
  const Json* const steps = record.data.find("steps");
  return steps != nullptr ? steps->whole_number() : record.step;
}

// Returns evaluations during epochs, and evaluations after epochs that have a validation loss.
Json evaluations_json(std::vector<LogRecord>& records) {
  Json all = Json::array();
  std::optional<std::uint64_t> last;
  each_record(records, "evaluation", [&](LogRecord& record) {
    const bool trained = member(record.data, "training_loss").dump() != "null";
    const bool validated = member(record.data, "validation_loss").dump() != "null";
    if (record.data.find("epoch") != nullptr && !validated) return;
    if (!trained && last == steps_of(record)) return;
    last = steps_of(record);
    Json one{{"steps", *last}};
    for (const char* name :
         {"training_loss", "validation_loss", "training_accuracy", "validation_accuracy"})
      if (record.data.find(name) != nullptr) one[name] = std::move(record.data[name]);
    all.push_back(std::move(one));
  });
  return all;
}

Json samples_json(const std::vector<LogRecord>& records) {
  std::map<std::uint64_t, std::string> texts;
  each_record(records, "sample", [&](const LogRecord& record) {
    texts[steps_of(record)] = member(record.data, "text").string();
  });
  Json samples = Json::array();
  for (const auto& [steps, text] : texts) samples.push_back({{"steps", steps}, {"text", text}});
  return samples;
}

std::vector<LoggedTable> tables_of(const std::vector<LogRecord>& records, const Json& parameters) {
  std::vector<LoggedTable> tables;
  const auto named = [&](const Json& record) {
    return std::ranges::find(tables, member(record, "table").string(), &LoggedTable::name);
  };
  each_record(records, "table", [&](const LogRecord& record) {
    if (named(record.data) == tables.end()) tables.emplace_back(record.data);
  });
  each_record(records, "rows", [&](const LogRecord& record) {
    check_runtime(named(record.data) != tables.end(), "the table ",
                  in_quotes(member(record.data, "table").string()),
                  " is unknown, expected its record `table` before its rows");
    named(record.data)->add(record.step, record.data);
  });
  const auto order = [&](const LoggedTable& table) {
    const auto place = std::ranges::find_if(parameters.elements(), [&](const Json& parameter) {
      return member(parameter, "name").string() == table.name;
    });
    return std::pair(!table.is_tokens, place - parameters.elements().begin());
  };
  std::ranges::stable_sort(tables, {}, order);
  return tables;
}

// Returns the text of each token; empty for a model without tokens.
Json vocabulary_json(const Json& run, const std::vector<LoggedTable>& tables) {
  std::vector<std::string> texts;
  if (const Json* vocabulary = run.find("vocabulary")) texts = vocabulary->strings();
  const Json* const tokens = run.find("tokens");
  std::uint64_t size = tokens != nullptr ? tokens->whole_number() : 0;
  if (!tables.empty() && tables.front().is_tokens) {
    size = std::max(size, tables.front().count);
    if (tokens == nullptr && !tables.front().labels.empty()) texts = tables.front().labels;
  }
  for (std::uint64_t id = texts.size(); id < size; ++id) texts.push_back(concat(id));
  texts.resize(size);
  return texts;
}

}  // namespace

std::vector<LogRecord> read_log(const std::filesystem::path& path) {
  check_runtime(file_exists(path), "cannot read ", path.string(), ": the file does not exist");
  const std::string text = read_file(path);
  const auto check_log = [&](bool is_log) {
    check_runtime(is_log, path.string(),
                  ": not the log of a run, expected a file that RunLog wrote");
  };
  check_log(is_run_log(text));
  std::string_view left = std::string_view(text).substr(0, whole_bytes(text));
  std::vector<LogRecord> records;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(line.size() + 1);
    const std::string place = concat(path.string(), ", line ", records.size() + 1);
    check_runtime(is_whole_line(line), place, ": damaged (wrong checksum)");
    Json data(line, place);
    check_runtime(data.find("event") != nullptr && data.find("step") != nullptr, place,
                  ": the record has no member \"event\" or \"step\"");
    LogRecord record{
        member(data, "event").string(), member(data, "step").whole_number(), place, {}};
    record.data = std::move(data);
    records.push_back(std::move(record));
  }
  check_log(!records.empty());
  return records;
}

Json report_data(std::vector<LogRecord> records) {
  Json header = std::move(records.at(0).data);
  Json report{{"format", "rowgrad report 2"}, {"run", std::move(header["about"])}};
  Json& run = report["run"];
  for (const char* name : {"first_step", "parameters", "unit"})
    if (header.find(name) != nullptr) run[name] = std::move(header[name]);
  run["state"] = "running";
  const std::vector<LoggedTable> tables = tables_of(records, member(run, "parameters"));
  if (Json vocabulary = vocabulary_json(header, tables); !vocabulary.elements().empty())
    report["vocabulary"] = std::move(vocabulary);
  if (is_true(header, "words")) report["words"] = true;
  if (header.find("loss_unit") != nullptr) report["loss_unit"] = std::move(header["loss_unit"]);
  report["curves"] = curves_json(records);
  report["norms"] = norms_json(records);
  if (Json all = evaluations_json(records); !all.elements().empty())
    report["evaluations"] = std::move(all);
  if (Json all = samples_json(records); !all.elements().empty()) report["samples"] = std::move(all);
  report["tables"] = Json::array();
  for (const LoggedTable& table : tables) report["tables"].push_back(table.to_json());

  double seconds = 0, spent = 0, reading = 0;
  for (const LogRecord& record : records)
    if (record.event == "curves" || record.event == "end")
      run["state"] = record.event == "curves"           ? "running"
                     : is_true(record.data, "finished") ? "finished"
                                                        : "stopped";
  each_record(records, "fault",
              [&](LogRecord& record) { run["fault"] = member(record.data, "text").string(); });
  each_record(records, "baselines", [&](LogRecord& record) {
    report["baselines"] = {{"uniform", member(record.data, "uniform").number()},
                           {"unigram", member(record.data, "unigram").number()}};
  });
  each_record(records, "reading",
              [&](LogRecord& record) { reading = member(record.data, "seconds").number(); });
  for (const char* event : {"curves", "norms", "end"})
    each_record(records, event, [&](LogRecord& record) {
      seconds = std::max(seconds, member(record.data, "seconds").number());
      spent = std::max(spent, member(record.data, "log_seconds").number());
    });
  run["seconds"] = rounded(seconds + reading);
  run["report_seconds"] = rounded(spent + reading);
  // Results of an analysis are shown only if no step followed the analysis.
  const std::uint64_t last = records.back().step;
  for (const char* name : {"text", "embeddings", "attention"})
    each_record(records, name, [&](LogRecord& record) {
      member(record.data, name);
      if (record.step == last) report[name] = std::move(record.data[name]);
    });
  return report;
}

void write_report(const std::filesystem::path& log, const std::string& page,
                  const std::string& data) {
  const std::string json = report_data(read_log(log)).dump() + '\n';
  if (!page.empty()) write_file(page, report_page(json));
  if (!data.empty()) write_file(data, json);
}

}  // namespace rowgrad
