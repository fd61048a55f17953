#pragma once

// Which rows of tables get gradients in the course of training, and how far they move, and why.
//
//   RowHistory rows(model);
//   run.observe(rows);
//   run.train();
//   for (const std::int32_t id : rows.tables().front().ids()) …
//
// Memory grows with the rows that had a gradient, not with the table: some 550 bytes and twice its
// values for each, and 76 bytes in each of up to 20 frames, up to 131,072 rows of a table. Of more,
// a random sample is followed, half of what was followed before each time there are too many, and
// the others are counted, a bit each. Tables may be in files. One all of whose rows move in a way
// that cannot be told backwards, by dense gradients or a decay that is not known, is copied before
// the first such step: unless it is in a file, or has more than 131,072 rows and no dense gradient.
// Of the table of a memory, the n-grams that look rows up are counted, too: see ngram_counts.hpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rowgrad/optim/training/ngram_counts.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// What the rows of a table stand for.
enum class RowKind { kToken, kPosition, kDistance, kNgram, kRow };
const char* name_of(RowKind kind);  // the kind's name, such as "token"

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

  /// `of_a_window` are the rows that every window looks up, by position or distance; none for
  /// tokens. `labels` are what each row stands for, where that is not its number. The table must
  /// outlive this.
  TableHistory(Parameter& table, RowKind kind, std::vector<std::int32_t> of_a_window = {},
               std::vector<std::string> labels = {}, std::size_t most_rows = kMostRows);

  /// For the table of a memory, looked up as the hash says, which must outlive this, too.
  TableHistory(Parameter& table, const NgramHash& hash);

  /// Lookups since the last update. Where nobody tells of any, a gradient of a row counts as one.
  void look_up(const Batch& batch);
  void look_up(std::span<const std::int32_t> ids);

  /// To be called before each update, when the table has its gradient, and after it. `decay` is the
  /// share of each value that weight decay takes in this step, also from rows without a gradient;
  /// none if that is not known: then what it moves counts as moved by momentum.
  void before_update(std::uint64_t step, std::optional<double> decay);
  void after_update();

  /// The rows that had a gradient in this step; those that were looked up where gradients are
  /// dense.
  std::size_t rows_now() const { return rows_now_; }

  /// The rows that have had one so far, those that are not followed, too; and how many rows each
  /// one that is followed stands for.
  std::size_t touched() const { return sample_ == 1 ? ids_.size() : touched_count_; }
  std::uint64_t sample() const { return sample_; }
  bool was_touched(std::int32_t id) const;

  /// Keeps what has happened so far as a frame. To be called at equal distances, of which every
  /// n-th is kept, n such that there are at most kMostFrames.
  void take_frame(std::uint64_t step);

  /// At most kMostFrames, and what has happened by now.
  struct Frame {
    std::uint64_t step;        // after which it was taken
    std::vector<Row> rows;     // of all rows so far, in the order of ids()
    std::vector<float> moved;  // distance of each of them from where it began
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
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<double> moved() const;

  /// For each of ids(), the kMostSteps steps that moved it farthest, the farthest first.
  const std::vector<std::vector<Step>>& steps() const { return steps_; }

  /// How far a row that is not followed, as it had no gradient, or a dense one without a lookup, is
  /// from where it began, if this is its value now. NaN if it is not known where that was.
  double moved_unfollowed(std::int32_t id, std::span<const real> value) const;

  const Parameter& table() const { return *table_; }  // whose history it is
  RowKind kind() const { return kind_; }              // what its rows stand for
  /// See the constructor.
  const std::vector<std::int32_t>& of_a_window() const { return of_a_window_; }

  const std::vector<std::string>& labels() const { return labels_; }  // see the constructor

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

  // Lookups of a row since the last update, of which the first was in this batch at this place; of
  // none for those without text.
  struct Lookups {
    std::uint64_t count = 0;
    std::size_t batch = 0;
    std::size_t place = 0;
  };
  // A followed row of this step.
  struct Now {
    std::size_t place = 0;  // among ids()
    Lookups lookups = {};
    double gradient_norm = 0;
  };

  double kept() const;
  void copy_start(bool knows_decay);
  void begin(std::span<const std::int32_t> ids);
  bool follows(std::int32_t id) const;
  void count_touched(std::span<const std::int32_t> ids);
  void follow_fewer();
  double add_gradient(std::uint64_t step, Row& row, std::span<const real> values) const;
  void keep_step(const Now& now, double moved);
  void copy_text(const Lookups& lookups, Step& step) const;
  void settle(Row& row, const real* now, const real* then) const;
  std::vector<Row> settled(const Tensor& values) const;
  std::vector<double> moved_to(const Tensor& values) const;

  Parameter* table_;
  RowKind kind_;
  std::vector<std::int32_t> of_a_window_;
  std::vector<std::string> labels_;
  std::optional<NgramCounts> ngrams_;
  std::unordered_map<std::int32_t, Lookups> waiting_;
  std::vector<Ids> batches_;                              // since the last update, of tokens
  std::unordered_map<std::int32_t, std::size_t> places_;  // of the rows in what follows
  std::vector<std::int32_t> ids_;
  std::vector<Row> rows_;
  std::vector<std::vector<Step>> steps_;
  std::vector<real> first_;        // the values with which each row began,
  std::vector<real> latest_;       // and after its last one
  std::size_t rows_now_ = 0;       // rows of this step,
  std::vector<std::int32_t> now_;  // and those of them that are followed,
  std::vector<Now> of_now_;
  Tensor before_;  // with their values before the update
  std::uint64_t step_ = 0;
  double decay_ = 0;           // of this step
  Tensor start_ = empty({0});  // of a table that is copied: all values with which it began
  std::size_t most_rows_;
  std::uint64_t sample_ = 1;
  std::vector<bool> touched_;  // of all rows, if a sample is followed
  std::size_t touched_count_ = 0;
  std::vector<Frame> frames_;
  std::size_t frame_calls_ = 0;
  std::size_t calls_a_frame_ = 1;
  double log_kept_ = 0;  // of what decay has left of rows that never had a gradient
  bool has_decayed_ = false;
  bool has_unknown_decay_ = false;
  bool is_dense_ = false;
};

/// A history for each table of embeddings that a model has: of tokens, then of positions or of
/// distances, in windows of `context` tokens, then of n-grams.
std::vector<TableHistory> table_histories(LanguageModel& model, std::size_t context);

/// Those of all tables of a model that get row gradients, also of tables that it has besides those
/// above. Observes a TrainingRun, with frames at equal distances in it; or is told by a loop of
/// one's own. With several ranks, the first one has them.
class RowHistory : public RunObserver {
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

  /// Borrows the model, which, if it is a LanguageModel, is trained on windows of `context` tokens;
  /// as many as it can read, if that is 0.
  explicit RowHistory(Layer& model, std::size_t context = 0);

  /// Those that are of no known kind come when they first have a row gradient.
  const std::vector<TableHistory>& tables() const { return tables_; }

  bool is_for_first_rank() const override { return true; }
  bool reads_batches() const override { return true; }
  void on_batch(const TrainingRun&, const Batch& batch) override;
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, double loss) override;

  /// The time that it has taken so far.
  Timer::Clock::duration cost() const { return cost_; }

  /// For a loop of one's own: before and after each update. `step` counts from 1. Lookups may be
  /// told before.
  void look_up(const Parameter& table, std::span<const std::int32_t> ids);
  void before_update(std::uint64_t step, const Optimizer& optimizer);
  void after_update(std::uint64_t step);

 private:
  TableHistory& of(Parameter& table);

  Layer& model_;
  std::vector<TableHistory> tables_;
  Timer::Clock::duration cost_ = {};
  std::vector<Batch> batches_;  // of this step, until a table of tokens is known
};

}  // namespace rowgrad
