// Compares the losses, norms and speeds that train reports with a plain model, computed here by
// loops in double precision.

#include "tests/support/shell.hpp"
#include "tests/test.hpp"

namespace {

constexpr std::size_t kContext = 3, kWidth = 2;

struct Job {
  std::string text;
  std::size_t training_tokens;
  double validation;  // fraction of the text held out for validation
  std::size_t stride, batch;
  double rate;
};
const Job kShortJob{"the cat sat on the mat; a dog sat there.", 30, 0.25, 6, 2, 0.5};

// A bound on the rounding errors of float. A loss below 4 is rounded several times with a relative
// error of 6e-8, and so are the parameters in a few steps.
constexpr double kFloat = 2e-6;

struct Window {
  std::array<std::size_t, kContext> tokens, targets;
};

std::vector<std::size_t> ids_of(const std::string& text) {
  const std::set<char> characters(text.begin(), text.end());
  std::vector<std::size_t> ids;
  for (const char c : text)
    ids.push_back(static_cast<std::size_t>(std::distance(characters.begin(), characters.find(c))));
  return ids;
}

std::vector<Window> windows_of(std::span<const std::size_t> ids, std::size_t stride) {
  std::vector<Window> windows;
  for (std::size_t begin = 0; begin + kContext < ids.size(); begin += stride) {
    Window& window = windows.emplace_back();
    for (std::size_t i = 0; i < kContext; ++i) {
      window.tokens[i] = ids[begin + i];
      window.targets[i] = ids[begin + i + 1];
    }
  }
  return windows;
}

// A next-token model whose logits after token t at position p are W (token[t] + position[p]) + b.
class PlainModel {
 public:
  explicit PlainModel(const StateDict& saved) {
    for (const char* name : {"token.weight", "position.weight", "head.weight", "head.bias"})
      values_.push_back(saved.doubles(concat("model.", name)));
    vocabulary_ = values_[kBias].size();
  }

  std::size_t parameter_count() const {
    return std::accumulate(values_.begin(), values_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& v) { return sum + v.size(); });
  }

  // Returns the mean loss over all tokens in the windows.
  double loss(std::span<const Window> windows) {
    clear_gradients();
    return add_gradients(windows);
  }

  // Makes one SGD step and returns the loss before it.
  double step(std::span<const Window> windows, double rate) {
    const double before = loss(windows);
    for (std::size_t i = 0; i < values_.size(); ++i)
      for (std::size_t k = 0; k < values_[i].size(); ++k) values_[i][k] -= rate * gradients_[i][k];
    return before;
  }

  // Returns the norm of all gradients of the last step together.
  double gradient_norm() const {
    double sum = 0;
    for (const auto& gradient : gradients_)
      for (const double value : gradient) sum += value * value;
    return std::sqrt(sum);
  }

 private:
  enum : std::size_t { kToken, kPosition, kWeight, kBias };

  void clear_gradients() {
    gradients_.clear();
    for (const auto& values : values_) gradients_.emplace_back(values.size(), 0.0);
  }

  double add_gradients(std::span<const Window> windows) {
    const double share = 1.0 / static_cast<double>(windows.size() * kContext);
    double sum = 0;
    for (const Window& window : windows)
      for (std::size_t position = 0; position < kContext; ++position) {
        const std::size_t token = window.tokens[position], target = window.targets[position];
        std::array<double, kWidth> x{}, dx{};
        for (std::size_t k = 0; k < kWidth; ++k)
          x[k] = values_[kToken][token * kWidth + k] + values_[kPosition][position * kWidth + k];
        std::vector<double> shares(vocabulary_);
        double whole = 0;
        for (std::size_t v = 0; v < vocabulary_; ++v) {
          double logit = values_[kBias][v];
          for (std::size_t k = 0; k < kWidth; ++k) logit += values_[kWeight][v * kWidth + k] * x[k];
          whole += shares[v] = std::exp(logit);
        }
        sum -= std::log(shares[target] / whole);
        for (std::size_t v = 0; v < vocabulary_; ++v) {
          const double slope = share * (shares[v] / whole - (v == target ? 1.0 : 0.0));
          gradients_[kBias][v] += slope;
          for (std::size_t k = 0; k < kWidth; ++k) {
            gradients_[kWeight][v * kWidth + k] += slope * x[k];
            dx[k] += slope * values_[kWeight][v * kWidth + k];
          }
        }
        for (std::size_t k = 0; k < kWidth; ++k) {
          gradients_[kToken][token * kWidth + k] += dx[k];
          gradients_[kPosition][position * kWidth + k] += dx[k];
        }
      }
    return sum * share;
  }

  std::size_t vocabulary_;
  std::vector<std::vector<double>> values_, gradients_;
};

struct Record {
  std::size_t steps, epoch;  // epoch: 0 for a record within an epoch
  double training_loss, validation_loss;
};

struct Length {
  std::size_t steps;
  std::size_t accumulate = 1;  // batches per step
  std::size_t every = 0;       // steps between evaluations within epochs; 0 for none
  std::size_t warmup = 0;
};

struct PlainRun {
  PlainRun(const Job& job, const StateDict& start, const Length& length) : model(start) {
    const std::vector<std::size_t> ids = ids_of(job.text);
    const std::span<const std::size_t> all = ids;
    const std::vector<Window> training = windows_of(all.first(job.training_tokens), job.stride);
    const std::vector<Window> validation = windows_of(all.subspan(job.training_tokens), kContext);
    first = {0, 0, model.loss(training), model.loss(validation)};
    std::size_t next = 0, epoch = 0;  // next: the first unused window of the epoch
    double epoch_loss = 0;
    for (std::size_t step = 1; step <= length.steps; ++step) {
      const std::size_t count = std::min(length.accumulate * job.batch, training.size() - next);
      rates.push_back(job.rate * std::min(1.0, static_cast<double>(step) /
                                                   static_cast<double>(length.warmup + 1)));
      losses.push_back(model.step(std::span(training).subspan(next, count), rates.back()));
      norms.push_back(model.gradient_norm());
      epoch_loss += losses.back() * static_cast<double>(count);
      next += count;
      if (length.every > 0 && (step - 1) % length.every == 0)
        records.push_back({step, 0, model.loss(training), model.loss(validation)});
      if (next < training.size()) continue;
      records.push_back({step, ++epoch, epoch_loss / static_cast<double>(training.size()),
                         model.loss(validation)});
      epoch_loss = 0;
      next = 0;
    }
    last_validation_loss = model.loss(validation);
  }

  PlainModel model;
  Record first;
  std::vector<double> losses, rates, norms;
  std::vector<Record> records;
  double last_validation_loss;
};

// Returns the validation loss of predicting token frequencies, with 1 added to each token's count.
double loss_of_frequencies(const Job& job) {
  const std::vector<std::size_t> ids = ids_of(job.text);
  const std::size_t vocabulary = *std::ranges::max_element(ids) + 1;
  std::vector<double> counts(vocabulary, 1);
  for (std::size_t i = 0; i < job.training_tokens; ++i) counts[ids[i]] += 1;
  double sum = 0;
  for (std::size_t i = job.training_tokens; i < ids.size(); ++i)
    sum -= std::log(counts[ids[i]] / static_cast<double>(job.training_tokens + vocabulary));
  return sum / static_cast<double>(ids.size() - job.training_tokens);
}

template <class... T>
std::string printed(const char* format, T... values) {
  std::array<char, 300> text;
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// Formats a value as reports round it.
std::string three_digits(double value) { return printed("%.3g", value); }

double seconds_until_now(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class ReportedNumbers : public ::testing::Test {
 protected:
  static std::string command(const Job& job, const std::string& options) {
    return concat("rowgrad train --corpus text --validation ", job.validation, " --context ",
                  kContext, " --stride ", job.stride, " --width ", kWidth, " --batch ", job.batch,
                  " --learning-rate ", job.rate,
                  " --window 1 --hidden 0 --dropout 0 --no-shuffle --sample-tokens 0 ", options);
  }

  std::string run(const Job& job, const std::string& options) const {
    const Outcome outcome = folder_.shell(command(job, options));
    EXPECT_EQ(outcome.status, 0) << options << ":\n" << outcome.output;
    return outcome.output;
  }

  // Returns the checkpoint of the run before its first step.
  StateDict start(const Job& job) const {
    write_file(folder_ / "text", job.text);
    run(job, "--epochs 0 --save start");
    return read_safetensors(folder_ / "start");
  }

  json read_json(const char* name) const { return json::parse(read_file(folder_ / name)); }

  const CommandFolder folder_;
};

void expect_loss(const json& reported, double expected, const std::string& where) {
  ASSERT_TRUE(reported.is_number()) << where;
  EXPECT_NEAR(reported.get<double>(), expected, kFloat) << where;
}

std::string shown_count(double count) {
  return count < 1e3   ? printed("%.0f", count)
         : count < 1e6 ? printed("%.1f k", count / 1e3)
                       : printed("%.2f M", count / 1e6);
}

// Returns the lines that train prints for its records, with SPEED instead of each speed.
std::string expected_lines(const PlainRun& plain, std::size_t steps_an_epoch, std::size_t epochs,
                           const Length& length) {
  std::string lines = printed("untrained  training loss %.6f  validation loss %.6f\n",
                              plain.first.training_loss, plain.first.validation_loss);
  for (const Record& record : plain.records) {
    const auto losses = [&](int digits) {
      return printed("  training loss %.*f  validation loss %.*f", digits, record.training_loss,
                     digits, record.validation_loss);
    };
    const std::size_t epoch = (record.steps - 1) / steps_an_epoch + 1;
    if (record.epoch == 0 && epochs == 0)
      lines += printed("step %4zu/%zu", record.steps, length.steps) + losses(3) + '\n';
    else if (record.epoch == 0)
      lines += printed("epoch %zu/%zu  step %4zu", epoch, epochs, record.steps) + losses(3) + '\n';
    else if (length.every == 0)  // 15 is the default number of epochs
      lines +=
          (epochs > 0 ? printed("epoch %zu/%zu", epoch, epochs) : printed("epoch %2zu/15", epoch)) +
          losses(4) + "  SPEED tokens/s\n";
  }
  return lines;
}

struct Case {
  const char* options;
  std::size_t steps_an_epoch, epochs;  // epochs: 0 if --steps is given
  Length length;
};

TEST_F(ReportedNumbers, EqualAPlainModel) {
  const Job& job = kShortJob;
  const StateDict before = start(job);
  const double baseline = loss_of_frequencies(job);
  for (const auto& [options, steps_an_epoch, epochs, length] : std::vector<Case>{
           {"--epochs 2", 3, 2, {.steps = 6}},
           {"--epochs 2 --accumulate 2", 2, 2, {.steps = 4, .accumulate = 2}},
           {"--epochs 2 --evaluate-every 2 --warmup 4",
            3,
            2,
            {.steps = 6, .every = 2, .warmup = 4}},
           {"--steps 3", 3, 0, {.steps = 3}},
           {"--steps 5 --evaluate-every 2", 3, 0, {.steps = 5, .every = 2}},
       }) {
    SCOPED_TRACE(options);
    const auto begin = std::chrono::steady_clock::now();
    const std::string output =
        run(job, concat(options, " --evaluate-first --save run --metrics csv --json json",
                        " --report page --report-data data"));
    const double elapsed = seconds_until_now(begin);
    const PlainRun plain(job, before, length);

    // Check the printed lines. Their speeds are compared with the saved run below.
    std::string lines, speeds_in_lines;
    std::istringstream console(output);
    for (std::string line; std::getline(console, line);) {
      if (line.find("  training loss ") == line.npos) continue;
      if (line.ends_with(" tokens/s")) {
        const std::size_t at = line.rfind("  ");
        speeds_in_lines += line.substr(at + 2) + '\n';
        line = line.substr(0, at) + "  SPEED tokens/s";
      }
      lines += line + '\n';
    }
    EXPECT_EQ(lines, expected_lines(plain, steps_an_epoch, epochs, length));
    EXPECT_HAS(output,
               printed("\nValidation %.3f nats (%.2f bits) a token; token frequencies alone "
                       "give %.3f nats (%.2f bits)\n",
                       plain.last_validation_loss, plain.last_validation_loss / std::log(2),
                       baseline, baseline / std::log(2)));
    EXPECT_HAS(output, "15 ids; 30 tokens to train on, 10 for validation\n");
    EXPECT_HAS(output, "\nBatches    3 an epoch, each of 2 windows of 3 tokens, stride 6\n");

    // The saved run has the losses of the plain model, and each file has the saved run's records.
    const StateDict saved = read_safetensors(folder_ / "run");
    EXPECT_EQ(saved.count("steps"), length.steps);
    const auto column = [&](const char* name) { return saved.doubles(concat("history.", name)); };
    const auto at_steps = column("steps"), at_epochs = column("epoch"),
               training = column("training_loss"), validation = column("validation_loss"),
               speeds = column("tokens_per_second");
    ASSERT_EQ(at_steps.size(), plain.records.size());
    std::string csv = "epoch,steps,training_loss,validation_loss,tokens_per_second\n";
    json of_epochs = json::array(), within_epochs = json::array(), all = json::array();
    std::string speeds_of_epochs;
    double seconds = 0;  // spent in steps
    for (std::size_t i = 0; i < plain.records.size(); ++i) {
      const Record& record = plain.records[i];
      EXPECT_EQ(at_steps[i], record.steps);
      EXPECT_EQ(at_epochs[i], record.epoch);
      expect_loss(training[i], record.training_loss, "saved run");
      expect_loss(validation[i], record.validation_loss, "saved run");
      json entry{{"steps", record.steps},
                 {"training_loss", training[i]},
                 {"validation_loss", validation[i]}};
      all.push_back(entry);
      if (record.epoch == 0) {
        within_epochs.push_back(entry);
        continue;
      }
      entry["epoch"] = record.epoch;
      entry["tokens_per_second"] = speeds[i];
      of_epochs.push_back(entry);
      csv += printed("%zu,%zu,%.9g,%.9g,%.9g\n", record.epoch, record.steps, training[i],
                     validation[i], speeds[i]);
      ASSERT_GT(speeds[i], 0);
      seconds += 5 * kContext / speeds[i];
      if (length.every == 0) speeds_of_epochs += shown_count(speeds[i]) + " tokens/s\n";
    }
    EXPECT_LT(seconds, elapsed);
    EXPECT_EQ(speeds_in_lines, speeds_of_epochs);
    EXPECT_EQ(read_file(folder_ / "csv"), csv);

    const json data = read_json("json");
    EXPECT_EQ(data["history"], of_epochs);
    EXPECT_EQ(data["evaluations"], within_epochs);
    EXPECT_EQ(data["training_tokens"], 30);
    EXPECT_EQ(data["validation_tokens"], 10);
    EXPECT_EQ(data["vocabulary_size"], 15);
    EXPECT_EQ(data["parameters"], plain.model.parameter_count());
    expect_loss(data["validation_loss"], plain.last_validation_loss, "JSON");
    expect_loss(data["validation_unigram_loss"], baseline, "JSON");

    // The report has the same records, and curves rounded to three digits.
    const json report = read_json("data");
    const json &curves = report["curves"], &norms = report["norms"];
    EXPECT_EQ(curves["step"].size(), length.steps);
    EXPECT_EQ(norms["step"], curves["step"]);
    json frames =
        json::array();  // at the end of each epoch, or of each step in a short run of steps
    for (std::size_t step = 1; step <= length.steps; ++step)
      if (epochs == 0 || step % steps_an_epoch == 0) frames.push_back(step);
    json shown_frames = json::array();
    for (const json& frame : report["tables"][0]["frames"]) shown_frames.push_back(frame["step"]);
    EXPECT_EQ(shown_frames, frames);
    for (std::size_t i = 0; i < curves["step"].size(); ++i) {
      EXPECT_EQ(curves["step"][i], i + 1);
      EXPECT_EQ(three_digits(curves["loss"][i]), three_digits(plain.losses[i]));
      EXPECT_EQ(three_digits(curves["learning_rate"][i]), three_digits(plain.rates[i]));
      EXPECT_EQ(three_digits(norms["norm"][i]), three_digits(plain.norms[i]));
    }
    EXPECT_EQ(three_digits(report["baselines"]["unigram"]), three_digits(baseline));
    EXPECT_LT(report["run"]["seconds"].get<double>(), elapsed);
    const json& last = report["evaluations"].back();
    EXPECT_EQ(last["steps"], length.steps);
    expect_loss(last["validation_loss"], plain.last_validation_loss, "report");
    for (const json& entry : all)
      EXPECT_EQ(std::ranges::count(report["evaluations"], entry), 1) << entry;
  }
}

// Returns the seconds of "2 h 5 min", "3 min 20 s", "12 s" or "1.5 s", and the largest rounding
// error.
std::pair<double, double> time_shown(const std::string& text) {
  double large = 0, small = 0;
  if (std::sscanf(text.c_str(), "%lf h %lf min", &large, &small) == 2)
    return {3600 * large + 60 * small, 60};
  if (std::sscanf(text.c_str(), "%lf min %lf s", &large, &small) == 2)
    return {60 * large + small, 0.5};
  std::sscanf(text.c_str(), "%lf s", &small);
  return {small, small < 10 ? 0.05 : 0.5};
}

// A terminal shows epoch, step, loss, tokens per second and remaining time, ten times per second.
TEST_F(ReportedNumbers, EqualAPlainModelOnATerminal) {
  constexpr std::size_t kEpochs = 50, kMaxSteps = 20000;
  const std::string story = read_file(folder_ / "story");
  const Job job{story, story.size(), 0, 1, 1, 0.02};
  const std::size_t windows = story.size() - kContext;
  const StateDict before = start(job);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome =
      folder_.shell(concat("script -qec 'timeout --foreground -s INT 1.5 ",
                           command(job, concat("--epochs ", kEpochs, " --save run")), "' log"));
  const double elapsed = seconds_until_now(begin);
  const StateDict saved = read_safetensors(folder_ / "run");
  EXPECT_HAS(outcome.output, concat("Stopped by Ctrl-C at step ", saved.count("steps"), "\r\n"));

  const PlainRun plain(job, before, {.steps = kMaxSteps});
  std::size_t last = 0, lines = 0;
  double seconds = 0;  // spent in steps of the current epoch
  for (std::size_t at = 0; (at = outcome.output.find("\r\033[Kepoch ", at)) != std::string::npos;) {
    at += 4;
    const std::string line = outcome.output.substr(at, outcome.output.find('\r', at) - at);
    SCOPED_TRACE(line);
    std::size_t epoch = 0, step = 0;
    double loss = 0, speed = 0;
    char unit = ' ';
    if (std::sscanf(line.c_str(), "epoch %zu/50  step %zu  loss %lf  %lf %c", &epoch, &step, &loss,
                    &speed, &unit) != 5)
      continue;  // a line at the end of an epoch
    speed *= unit == 'k' ? 1e3 : unit == 'M' ? 1e6 : 1;
    const std::size_t left = line.find(" tokens/s  ");
    ASSERT_NE(left, line.npos);
    EXPECT_EQ(epoch, (step - 1) / windows + 1);
    EXPECT_GT(step, last);
    last = step;
    ++lines;
    // 1e-4 is half a unit of the fourth decimal, plus 5e-5 for float rounding errors in all steps.
    if (step <= kMaxSteps) {
      EXPECT_NEAR(loss, plain.losses[step - 1], 1e-4);
    }
    const double tokens_left = static_cast<double>((kEpochs * windows - step) * kContext);
    const auto [time, rounding] = time_shown(line.substr(left + 11));
    EXPECT_NEAR(time, tokens_left / speed,
                rounding + 0.01 * time);  // the speed is printed with three digits
    seconds = static_cast<double>(((step - 1) % windows + 1) * kContext) / speed;
  }
  EXPECT_GE(lines, 2U);
  for (const double speed : saved.doubles("history.tokens_per_second"))
    seconds += static_cast<double>(windows * kContext) / speed;
  // The rest of the elapsed time is spent on startup and output.
  EXPECT_LT(seconds, elapsed);
  EXPECT_GT(seconds, elapsed / 5);
}

}  // namespace
