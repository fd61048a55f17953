#pragma once

// Watches a training run, and describes it for people: as the data of examples/report.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/support/row_history.hpp>

namespace rowgrad {

class RunReport {
 public:
  /// The rest, from step `first` on, of a run of `steps` steps on windows of `context` tokens.
  /// `about` is the "run" of the report: what does not change while it goes on. Model and tokenizer
  /// must outlive this.
  RunReport(LanguageModel& model, const Tokenizer& tokenizer, std::size_t context,
            std::size_t first, std::size_t steps, nlohmann::json about);

  /// What the model is trained on, and what it is not, if there is such a text.
  void set_text(const TokenSequence& training, const TokenSequence* validation);

  struct Step {
    std::uint64_t number = 0;  // from 1 on
    double loss = 0;           // mean, in nats per token
    double learning_rate = 0;
    double tokens_per_second = 0;
  };

  /// To be called for each batch, between backward and the update, and after it. `decay` is the
  /// share that weight decay takes of each value in this step, and `clip` the norm at which
  /// gradients are clipped, 0 for none.
  void on_batch(const Batch& batch);
  void before_update(std::uint64_t step, double decay, double clip);
  void after_step(const Step& step);

  /// Keeps what rows have gone through so far; to be called after equal numbers of steps.
  void take_frame();

  /// The report so far.
  nlohmann::json so_far() const;

  /// The report of a run that is over, with what the model makes of its text and, if it is a GPT,
  /// of a prompt. Ends early, with less of the text, where `goes_on` returns false.
  nlohmann::json at_end(const Ids& prompt, const std::function<bool()>& goes_on = {});

  const std::vector<RowHistory>& tables() const { return tables_; }

 private:
  // One number for each n steps, n such that there are at most kMostPoints.
  struct Curves {
    std::vector<std::uint64_t> step;
    std::vector<double> loss, learning_rate, tokens_per_second, rows;
  };
  void halve_curves();

  static constexpr std::size_t kMostPoints = 4000;

  LanguageModel& model_;
  const Tokenizer& tokenizer_;
  std::size_t context_;
  std::size_t steps_;
  nlohmann::json about_;
  std::vector<RowHistory> tables_;
  std::optional<TokenSequence> training_, validation_;
  nlohmann::json baselines_;
  Curves curves_;
  std::size_t steps_a_point_ = 1;
  double loss_sum_ = 0, row_sum_ = 0;  // of the steps since the last point
  std::size_t summed_ = 0;
  std::vector<std::uint64_t> norm_step_;
  std::vector<double> norm_, clipped_;
  std::uint64_t step_;
  std::size_t rows_now_ = 0;
};

/// A text with bytes that are not UTF-8 as <0xNN>.
std::string shown_bytes(std::string_view text);

}  // namespace rowgrad
