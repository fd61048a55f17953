#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <iostream>
#include <unistd.h>

#include <rowgrad/examples/rowgrad/output/progress.hpp>

namespace rowgrad {
std::string formatted(const char* format, ...) {
  std::array<char, 256> text;
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  return text.data();
}

std::string readable_seconds(double seconds) {
  if (seconds < 10) return formatted("%.1f s", seconds);
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return formatted("%ld s", whole);
  if (whole < 3600) return formatted("%ld min %ld s", whole / 60, whole % 60);
  return formatted("%ld h %ld min", whole / 3600, whole / 60 % 60);
}

std::string readable_count(double count) {
  if (count < 1e3) return formatted("%.0f", count);
  if (count < 1e6) return formatted("%.1f k", count / 1e3);
  return formatted("%.2f M", count / 1e6);
}

ProgressLine::ProgressLine()
    : terminal_(isatty(STDOUT_FILENO) == 1), last_(std::chrono::steady_clock::now()) {}

void ProgressLine::show(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5))) return;
  last_ = now;
  if (terminal_) {
    std::cout << "\r\033[K" << line << std::flush;
    shown_ = true;
  } else {
    std::cout << line << std::endl;
  }
}

void ProgressLine::clear() {
  if (shown_) std::cout << "\r\033[K" << std::flush;
  shown_ = false;
}

std::string bits(double nats) {
  return formatted("%.3f nats (%.2f bits)", nats, nats / std::log(2.0));
}

void print_losses(const std::string& prefix, const TrainingRecord& record, int digits,
                  const std::string& suffix) {
  std::cout << prefix << formatted("  training loss %.*f", digits, record.training_loss);
  if (record.validation_loss)
    std::cout << formatted("  validation loss %.*f", digits, *record.validation_loss);
  std::cout << suffix << std::endl;
}

std::string ProgressLines::place(const TrainingRun& run) const {
  const std::size_t last = run.steps() - 1;
  const TrainingRunOptions& options = run.options();
  std::string text;
  if (options.steps == 0)
    text = concat("epoch ", last / run.steps_per_epoch() + 1, '/', options.epochs, "  ");
  text += formatted("step %4zu", run.steps());
  return options.steps > 0 ? concat(text, '/', options.steps) : text;
}

void ProgressLines::after_step(const TrainingRun& run, const StepResult& result) {
  for (const TrainingRecord& record : result.records) print(run, record);
  if (!result.loss) return;
  const double rate = run.speed();
  progress_.show(concat(place(run), formatted("  loss %.4f  ", *result.loss), readable_count(rate),
                        ' ', run.unit().name, "/s  ", readable_seconds(run.seconds_left()),
                        " left"));
}

void ProgressLines::print(const TrainingRun& run, const TrainingRecord& record) {
  clear();
  if (!record.ends_epoch()) {
    print_losses(place(run), record, 3);
  } else if (run.options().evaluation.every == 0) {
    const auto width = static_cast<int>(std::to_string(run.options().epochs).size());
    print_losses(formatted("epoch %*zu/%zu", width, record.epoch, run.options().epochs), record, 4,
                 concat("  ", readable_count(record.speed), ' ', run.unit().name, "/s"));
  }
}

void ProgressLines::at_end(const TrainingRun&) { clear(); }

}  // namespace rowgrad
