#pragma once

// Which rows of tables get gradients in the course of training, and how far they move, and why.
//
//   RowHistory rows(model);
//   run.add(rows);
//   run.train();
//   for (const std::int32_t id : rows.tables().front().ids()) …
//
// They are those that tapes have looked up or that have row gradients: tables of any model, under
// the names that its layers give their rows (Layer::row_names).
//
// Memory grows with the rows that had a gradient, not with the table: some 550 bytes and twice its
// values for each, and 80 bytes in each of up to 20 frames, up to 131,072 rows of a table, the
// first ones; others are counted, a bit each. Tables may be in files. One all of whose rows move in
// a way that cannot be told backwards, by dense gradients or a decay that is not known, is copied
// before the first such step: unless it is in a file, or has more than 131,072 rows and no dense
// gradient. Of the table of a memory, the n-grams that look rows up are counted, too: see
// ngram_counts.hpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rowgrad/optim/training/ngram_counts.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// Returns the tokens that looked rows up, one for each position: EmbeddingLookup::tokens, or the
/// ids themselves if rows are of the kind "token". Null if neither is known.
std::shared_ptr<const Ids> tokens_of(const Tape::Lookup& lookup, std::string_view kind);

/// The history of one table.
class TableHistory {
 public:
  /// What a row has gone through so far.
  struct Row {
    std::uint64_t lookups = 0;  // how often its id was looked up, in all
    std::uint64_t steps = 0;    // in which it had a gradient (that looked it up, where dense),
    std::uint64_t last = 0;     // and the last one of these
    double squares = 0;         // sum of the squares of its gradients in these
    double largest = 0;         // the largest gradient norm of a step
    double path = 0;            // sum of the distances it moved in these steps, but for decay
    double momentum = 0;        // distance moved between its gradients, by momentum,
    double decay = 0;           // and by weight decay
    double log_kept = 0;        // log_kept_ when it last had a gradient
  };

  /// A step in which a row had a gradient.
  struct Step {
    std::uint64_t step = 0;               // counted from 1
    std::uint64_t lookups = 0;            // how often its batch looked the row up
    double gradient_norm = 0;             // before clipping
    double moved = 0;                     // distance, without what weight decay took
    std::vector<std::int32_t> text = {};  // tokens around a lookup, if they are what looks rows up,
    std::size_t place = 0;                // and where in it that was
  };

  static constexpr std::size_t kMostRows = std::size_t{1} << 17;  // the most rows that are followed
  static constexpr std::size_t kMostSteps = 3;                    // steps that are kept of each row

  /// The table must outlive this, and so must the hash of a memory's table. `tables`, if not null,
  /// fetches rows before they are read.
  explicit TableHistory(Parameter& table, RowNames names = {}, const NgramHash* hash = nullptr,
                        std::size_t most_rows = kMostRows, TablePlacement* tables = nullptr);

  /// Lookups since the last update, and the tokens that made them, if there are any: see tokens_of.
  void look_up(std::shared_ptr<const Ids> ids, std::shared_ptr<const Ids> tokens = nullptr);

  /// To be called before each update, when the table has its gradient, and after it. `decay` is the
  /// share of each value that weight decay takes in this step, also from rows without a gradient;
  /// none if that is not known: then what it moves counts as moved by momentum.
  void before_update(std::uint64_t step, std::optional<double> decay);
  void after_update();

  /// The rows that had a gradient in this step; those that were looked up where gradients are
  /// dense.
  std::size_t rows_now() const { return rows_now_; }

  /// The rows that have had one so far, or that were looked up where gradients are dense; also
  /// those that are not followed.
  std::size_t touched() const { return ids_.size() + not_followed_; }
  bool was_touched(std::int32_t id) const;

  /// The same with all rows of a table that has had dense gradients, in which each row has one.
  std::size_t with_gradient() const { return is_dense_ ? table_->shape()[0] : touched(); }
  bool had_gradient(std::int32_t id) const { return is_dense_ || was_touched(id); }

  /// Keeps what has happened so far as a frame. To be called at equal distances, of which every
  /// n-th is kept, n such that there are at most kMostFrames.
  void take_frame(std::uint64_t step);

  /// At most kMostFrames, and what has happened by now.
  struct Frame {
    std::uint64_t step;         // after which it was taken
    std::vector<Row> rows;      // of all rows so far, in the order of ids()
    std::vector<double> moved;  // distance of each of them from where it began
  };
  const std::vector<Frame>& frames() const { return frames_; }
  Frame now(std::uint64_t step) const;

  /// The rows that had most lookups, the most frequent first.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  /// The rows that had a gradient, in the order of their first ones; what happened to each, and how
  /// far each is from where it began or, where that cannot be told, from where it was before its
  /// first gradient: in a table in a file with a decay that is not known, and where decay had left
  /// nothing of the row by then.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::optional<std::size_t> place_of(std::int32_t id) const;  // among these, if it is there
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<double> moved() const { return now(0).moved; }

  /// For each of ids(), the kMostSteps steps that moved it farthest, the farthest first.
  const std::vector<std::vector<Step>>& steps() const { return steps_; }

  /// How far a row that is not followed, as it had no gradient, or a dense one without a lookup, is
  /// from where it began, if this is its value now. NaN if it is not known where that was.
  double moved_unfollowed(std::int32_t id, std::span<const real> value) const;

  const Parameter& table() const { return *table_; }          // whose history it is
  Tensor values(const std::vector<std::int32_t>& ids) const;  // of these rows, as they are now
  const std::string& kind() const { return names_.kind; }     // what its rows stand for
  const std::vector<std::string>& labels() const { return names_.names; }  // see RowNames

  /// What rows stand for in the table of a memory; null for other tables.
  const NgramCounts* ngrams() const { return ngrams_ ? &*ngrams_ : nullptr; }

  /// Whether the table has had dense gradients: then all rows have one in each of these steps, and
  /// only those that were looked up are followed.
  bool is_dense() const { return is_dense_; }

  /// What weight decay has left of rows that never had a gradient, none if there was no decay; and
  /// whether there is decay that is not known.
  std::optional<double> kept_without_gradient() const;
  bool has_unknown_decay() const { return has_unknown_decay_; }

 private:
  static constexpr std::size_t kMostFrames = 20;

  // Ids that were looked up since the last update, and the tokens that did, if there are any.
  struct Lookup {
    std::shared_ptr<const Ids> ids, tokens;
  };
  // A followed row that has a gradient in this step.
  struct Now {
    std::size_t place = 0;         // among ids()
    std::size_t of_gradient = 0;   // where its gradient is
    std::uint64_t lookups = 0;     // since the last update
    std::size_t first_lookup = 0;  // the place of the first one among all of the table's
    double gradient_norm = 0;
  };

  double kept() const;
  void copy_start(bool knows_decay);
  std::optional<std::size_t> follow(std::int32_t id);
  void begin(std::size_t place, const real* value);
  double add_gradient(Row& row, std::span<const real> values) const;
  void keep_step(const Now& now, double moved);
  void copy_text(const Now& now, Step& step) const;
  void settle(Row& row, const real* now, const real* then) const;

  Parameter* table_;
  TablePlacement* tables_;
  RowNames names_;
  std::optional<NgramCounts> ngrams_;
  std::size_t most_rows_;
  std::vector<Lookup> waiting_;                           // until the next update
  std::unordered_map<std::int32_t, std::size_t> places_;  // of rows that are followed, among ids_
  std::vector<std::int32_t> ids_;
  std::vector<Row> rows_;
  std::vector<std::vector<Step>> steps_;
  std::vector<real> first_;            // the values with which each row began
  std::vector<real> latest_;           // the values after each row's last step
  std::vector<bool> is_not_followed_;  // of all rows, once there are such ones
  std::size_t not_followed_ = 0;
  std::size_t rows_now_ = 0;  // that have a gradient in this step
  std::vector<Now> now_;      // those of them that are followed
  std::vector<std::int32_t> now_ids_;
  Tensor before_;  // their values before the update
  std::uint64_t step_ = 0;
  double decay_ = 0;           // of this step
  Tensor start_ = empty({0});  // of a table that is copied: all values with which it began
  std::vector<Frame> frames_;
  std::size_t frame_calls_ = 0;
  std::size_t calls_a_frame_ = 1;
  double log_kept_ = 0;  // of what decay has left of rows that never had a gradient
  bool has_decayed_ = false;
  bool has_unknown_decay_ = false;
  bool is_dense_ = false;
};

/// The histories of all tables of a model that are looked up or get row gradients. Observes a
/// TrainingRun, with frames at equal distances in it; or is told by a loop of one's own. With
/// several ranks, each knows the lookups of its own shards only; one rank is enough.
class RowHistory : public TrainingCallback {
 public:
  /// Adds the time until it goes out of scope to `cost`.
  class Timer {
   public:
    using Clock = std::chrono::steady_clock;  // for times
    /// Adds the time from now on to `cost`.
    explicit Timer(Clock::duration& cost) : cost_(cost) {}
    ~Timer() { cost_ += Clock::now() - begin_; }

   private:
    Clock::duration& cost_;
    Clock::time_point begin_ = Clock::now();
  };

  /// Borrows the model, and `tables`, which fetches rows that are not in this process:
  /// TrainingRun::tables().
  explicit RowHistory(Layer& model, TablePlacement* tables = nullptr)
      : model_(model), tables_of_model_(tables) {}

  /// Those of tokens first, and then the others, each in the order of the model's parameters.
  const std::vector<TableHistory>& tables() const { return tables_; }

  /// The history of a table (EmbeddingTable::table), which begins now if it has none; valid until
  /// another one begins.
  /// Throws std::invalid_argument for a parameter that is none of the model.
  TableHistory& of(Parameter& table);

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult& result) override;
  CallbackNeeds needs() const override { return {.gradients = true}; }

  /// The time that it has taken so far.
  Timer::Clock::duration cost() const { return cost_; }

  /// For a loop of one's own: when a tape has gone backward, and before and after each update.
  /// `step` counts from 1. Of a tape with several models, these are the tables of its own: throws
  /// std::invalid_argument if none is. After the update of a step that before_update() was not told
  /// of, throws std::logic_error.
  void after_backward(const Tape& tape);
  void before_update(std::uint64_t step, const Optimizer& optimizer);
  void after_update(std::uint64_t step);

 private:
  void end_step(std::uint64_t step, bool has_frame);

  Layer& model_;
  TablePlacement* tables_of_model_;
  std::uint64_t begun_ = 0;  // the step whose update is awaited; 0 for none
  std::vector<TableHistory> tables_;
  Timer::Clock::duration cost_ = {};
};

}  // namespace rowgrad
