#pragma once

// Which rows of tables get gradients in the course of training, and how far they move, and why.
// Memory grows with the rows that had a gradient, not with the table.
//
//   RowHistory rows(model);
//   run.observe(rows);
//   run.train();
//   for (const std::int32_t id : rows.tables().front().ids()) …

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// What the rows of a table stand for.
enum class RowKind { kToken, kPosition, kDistance };
const char* name_of(RowKind kind);  // "token"

/// The history of one table.
class TableHistory {
 public:
  /// What a row has gone through so far.
  struct Row {
    std::uint64_t lookups = 0;
    std::uint64_t steps = 0;  // in which it had a gradient,
    std::uint64_t last = 0;   // and the last one of these
    double squares = 0;       // of all its gradients
    double largest = 0;       // gradient norm of a step
    double momentum = 0;      // distance moved between its gradients, by momentum,
    double decay = 0;         // and by weight decay
    double log_kept = 0;      // log_kept_ when it last had a gradient
  };

  /// `of_a_window` are the rows that every window looks up, by position or distance; none for
  /// tokens. `labels` are what each row stands for, where that is not its number. The table must
  /// outlive this.
  TableHistory(Parameter& table, RowKind kind, std::vector<std::int32_t> of_a_window = {},
               std::vector<std::string> labels = {});

  void look_up(const Batch& batch);

  /// To be called before each update, when the table has its gradient, and after it. `decay` is the
  /// share of each value that weight decay takes in this step, also from rows without a gradient;
  /// none if that is not known: then what it moves counts as moved by momentum.
  void before_update(std::uint64_t step, std::optional<double> decay);
  void after_update();

  /// The rows that had a gradient in this step; those that were looked up where gradients are
  /// dense.
  std::size_t rows_now() const { return now_.size(); }

  /// Keeps what has happened so far as a frame. To be called at equal distances, of which every
  /// n-th is kept, n such that there are at most kMostFrames.
  void take_frame(std::uint64_t step);

  /// At most kMostFrames, and what has happened by now.
  struct Frame {
    std::uint64_t step;
    std::vector<Row> rows;  // of all rows so far, in the order of ids()
    std::vector<float> moved;
  };
  const std::vector<Frame>& frames() const { return frames_; }
  Frame now(std::uint64_t step) const;

  /// The rows that had most lookups, the most frequent first.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  /// The rows that had a gradient, in the order of their first ones; what happened to each, and how
  /// far each is from where it began.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<double> moved() const;

  const Parameter& table() const { return *table_; }
  RowKind kind() const { return kind_; }
  const std::vector<std::int32_t>& of_a_window() const { return of_a_window_; }

  const std::vector<std::string>& labels() const { return labels_; }

  /// Whether the table has had dense gradients: then all rows have one in each step, and only those
  /// that were looked up are followed.
  bool is_dense() const { return dense_; }

  /// What weight decay has left of rows that never had a gradient, none if there was no decay; and
  /// whether there is decay that is not known.
  std::optional<double> kept_without_gradient() const;
  bool has_unknown_decay() const { return has_unknown_decay_; }

 private:
  static constexpr std::size_t kMostFrames = 20;

  void begin(std::span<const std::int32_t> ids);
  void add_gradient(std::uint64_t step, Row& row, std::span<const real> values) const;
  void settle(Row& row, const real* now, const real* then) const;
  std::vector<Row> settled(const Tensor& values) const;
  std::vector<double> moved_to(const Tensor& values) const;

  Parameter* table_;
  RowKind kind_;
  std::vector<std::int32_t> of_a_window_;
  std::vector<std::string> labels_;
  std::unordered_map<std::int32_t, std::size_t> waiting_;  // lookups since the last update
  std::unordered_map<std::int32_t, std::size_t> places_;   // of the rows in what follows
  std::vector<std::int32_t> ids_;
  std::vector<Row> rows_;
  std::vector<real> first_;              // the values of each row before its first update,
  std::vector<real> latest_;             // and after its last one
  std::vector<std::int32_t> now_;        // the rows of this step
  std::vector<std::size_t> now_places_;  // and where they are in what is above
  std::vector<Frame> frames_;
  std::size_t frame_calls_ = 0;
  std::size_t calls_a_frame_ = 1;
  double log_kept_ = 0;  // of what decay has left of rows that never had a gradient
  bool has_decayed_ = false;
  bool has_unknown_decay_ = false;
  bool dense_ = false;
};

/// A history for each table of embeddings that a model has: of tokens, then of positions or of
/// distances, in windows of `context` tokens.
std::vector<TableHistory> table_histories(LanguageModel& model, std::size_t context);

/// Those of a run, with frames at equal distances in it. With several ranks, the first one has
/// them.
class RowHistory : public RunObserver {
 public:
  /// Borrows the model, which is trained on windows of `context` tokens; as many as it can read, if
  /// that is 0.
  explicit RowHistory(LanguageModel& model, std::size_t context = 0);

  const std::vector<TableHistory>& tables() const { return tables_; }

  bool is_for_first_rank() const override { return true; }
  bool reads_batches() const override { return true; }
  void on_batch(const TrainingRun&, const Batch& batch) override;
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, double loss) override;

 private:
  std::vector<TableHistory> tables_;
};

}  // namespace rowgrad
