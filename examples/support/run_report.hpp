#pragma once

// Watches a training run, and describes it for people: as a page (examples/report) or as its data.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/row_history.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {

class RunReport {
 public:
  /// `about` is the "run" of the report: what does not change while it goes on. Watches the run
  /// from here on. Must not outlive it.
  RunReport(Training& training, nlohmann::json about);
  ~RunReport();
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;

  /// To be called after each step, with the mean loss of its batches.
  void after_step(double loss);

  /// The report so far.
  nlohmann::json so_far();

  /// The report of a run that is over: with what the model makes of the text and, if it is a GPT,
  /// of a prompt.
  nlohmann::json at_end(const Ids& prompt);

  /// Whether the time since the last report is so long that another one does not slow the run.
  bool is_due() const;

 private:
  using Clock = std::chrono::steady_clock;

  // One number for each n steps, n such that there are at most kMostPoints.
  struct Curves {
    std::vector<std::uint64_t> step;
    std::vector<double> loss, learning_rate, tokens_per_second, rows;
  };
  void halve_curves();
  double decay() const;

  static constexpr std::size_t kMostPoints = 4000;

  Training& training_;
  nlohmann::json about_;
  std::vector<RowHistory> tables_;
  Curves curves_;
  std::size_t steps_a_point_ = 1;
  double loss_sum_ = 0, row_sum_ = 0;  // of the steps since the last point
  std::size_t summed_ = 0;
  std::vector<std::uint64_t> norm_step_;
  std::vector<double> norm_, clipped_;
  std::size_t rows_now_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_end_ = start_;
  Clock::duration last_cost_ = {};
};

/// Throws std::runtime_error if the programs were built without the chart library, saying what to
/// install.
void check_report_page();

/// A report as a whole page. Throws as check_report_page does.
std::string report_page(const nlohmann::json& report);

/// A text with bytes that are not UTF-8 as <0xNN>.
std::string shown_bytes(std::string_view text);

}  // namespace rowgrad
