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

  /// The report so far.
  nlohmann::json so_far() const;

  /// The same if the user has stopped the run.
  nlohmann::json stopped() const;

  /// The report of a run that is over: with what the model makes of the text and, if it is a GPT,
  /// of a prompt. Ends early, with less of the text, where `goes_on` returns false.
  nlohmann::json at_end(const Ids& prompt, const std::function<bool()>& goes_on = {});

 private:
  using Clock = std::chrono::steady_clock;

  void before_update();
  void add_facts(nlohmann::json& report, const char* state) const;

  Training& training_;
  RunReport report_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace rowgrad
