#pragma once

// Progress lines. A terminal shows one line that is rewritten. Files get a line every five seconds.

#include <chrono>
#include <string>

#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// Formats like printf; longer results are cut to 255 bytes.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// Returns "1 min 15 s" for 75, "7.2 s" for 7.25.
std::string readable_seconds(double seconds);

/// Returns "1.23 M" for 1234567, "53.2 k" for 53210.
std::string readable_count(double count);

class ProgressLine {
 public:
  ProgressLine();

  /// Shows the line, unless another line was shown a short time ago.
  void show(const std::string& line);

  /// Removes the line from a terminal, before other output.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// Returns "1.826 nats (2.63 bits)".
std::string bits(double nats);

void print_losses(const std::string& prefix, const TrainingRecord& record, int digits,
                  const std::string& suffix = "");

/// A callback that prints progress.
class ProgressLines : public TrainingCallback {
 public:
  /// Removes the progress line, before other output.
  void clear() { progress_.clear(); }

  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun& run) override;

 private:
  std::string place(const TrainingRun& run) const;
  void print(const TrainingRun& run, const TrainingRecord& record);

  ProgressLine progress_;
};

/// A callback that stops a run after a recorded signal. Requires: a HeldInterrupts exists.
struct StopsOnInterrupts : TrainingCallback {
  bool should_continue(const TrainingRun&) override { return !interrupted(); }
};

}  // namespace rowgrad
