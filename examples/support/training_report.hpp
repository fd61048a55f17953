#pragma once

// The report of a Training.

#include <chrono>
#include <functional>

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/run_report.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {

class TrainingReport {
 public:
  /// `about` is as for RunReport. Watches the run from here on. Must not outlive it.
  TrainingReport(Training& training, nlohmann::json about);
  ~TrainingReport();
  TrainingReport(const TrainingReport&) = delete;
  TrainingReport& operator=(const TrainingReport&) = delete;

  /// To be called after each step, with the mean loss of its batches.
  void after_step(double loss);

  /// Passes the report so far to `write` unless that would slow the run.
  void write_if_due(const std::function<void(const nlohmann::json&)>& write);

  /// The report so far.
  nlohmann::json so_far();

  /// The report of a run that is over: with what the model makes of the text and, if it is a GPT,
  /// of a prompt. Ends early, with less of the text, where `goes_on` returns false.
  nlohmann::json at_end(const Ids& prompt, const std::function<bool()>& goes_on = {});

 private:
  using Clock = std::chrono::steady_clock;

  double decay() const;
  void add_facts(nlohmann::json& report) const;

  Training& training_;
  RunReport report_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_end_ = start_;
  Clock::duration last_cost_ = {};
};

}  // namespace rowgrad
