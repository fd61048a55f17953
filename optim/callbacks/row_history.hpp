#pragma once

// Records which rows of tables get gradients during training, how far they move, and why.
//
//   RowHistory rows(model);
//   run.add(rows);
//   run.train();
//   for (const std::int32_t id : rows.tables().front().ids()) …
//
// A history covers each table of a model that a tape looks up or that has row gradients. Layers
// name the rows (Layer::row_names). Tables may be in files. For an n-gram memory's table, the
// n-grams that look up each row are also counted: see ngram_counts.hpp.
//
// In each table, the first 131,072 rows that get a gradient are tracked. A tracked row takes some
// 250 bytes, 170 more if tokens look it up, and one or two copies of its values. Later rows are
// only counted, with a bit each. Each table also reserves 12 bytes of address space a row, but uses
// memory only for pages with looked-up rows.
//
// Dense gradients and an unknown weight decay move all rows, and a row's start cannot be computed
// afterwards. The table is therefore copied before the first step with either, unless it is in a
// file, or has more than 131,072 rows and no dense gradient.
//
// Changes of rows between two updates, for example by lookups with max_norm, count as movement by
// momentum. The first change of each table is not counted.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/base/zeroed_allocator.hpp>
#include <rowgrad/core/data/ngram_counts.hpp>
#include <rowgrad/optim/row_watcher.hpp>
#include <rowgrad/optim/slots/row_records.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// The history of one table.
class TableHistory final : public RowWatcher {
 public:
  /// The statistics of a row.
  struct Row {
    std::uint64_t lookups = 0;  // number of lookups of its id
    std::uint64_t steps = 0;    // steps with a gradient (if dense: steps that looked it up)
    std::uint64_t last = 0;     // the last of these steps
    double squares = 0;         // sum of the squared gradient norms of these steps
    double largest = 0;         // largest gradient norm of a step
    double path = 0;            // sum of the distances moved in these steps, except by decay
    double momentum = 0;        // distance moved by momentum between these steps
    double decay = 0;           // distance moved by weight decay between these steps
    double log_kept = 0;        // log_kept_ after the last of these steps
  };

  /// The tokens around a lookup: up to 8 before and 3 after it.
  class Text {
   public:
    static constexpr std::size_t kBefore = 8;                  // tokens before the lookup
    static constexpr std::size_t kAfter = 3;                   // tokens after it
    static constexpr std::size_t kMax = kBefore + 1 + kAfter;  // maximum number of tokens

    Text() = default;
    /// Copies at most kMax tokens.
    explicit Text(std::span<const std::int32_t> tokens)
        : size_(static_cast<std::uint32_t>(std::min(tokens.size(), kMax))) {
      std::copy_n(tokens.begin(), size_, tokens_.begin());
    }

    /// Returns a pointer to the first token.
    const std::int32_t* begin() const { return tokens_.data(); }
    /// Returns a pointer after the last token.
    const std::int32_t* end() const { return begin() + size_; }
    /// Returns the number of tokens.
    std::size_t size() const { return size_; }
    /// Returns size() == 0.
    bool empty() const { return size_ == 0; }
    bool operator==(const Text&) const = default;

   private:
    friend TableHistory;

    std::uint32_t size_ = 0;
    std::array<std::int32_t, kMax> tokens_{};
  };

  /// A step in which a row had a gradient.
  struct Step {
    std::uint64_t step = 0;     // counted from 1
    std::uint64_t lookups = 0;  // lookups of the row in this step
    double gradient_norm = 0;   // before clipping
    double moved = 0;           // distance moved, except by weight decay
    Text text = {};             // tokens around the first lookup; empty if no tokens are known
    std::size_t place = 0;      // position of the lookup in `text`
  };

  static constexpr std::size_t kMaxRows = std::size_t{1} << 17;  // maximum number of tracked rows
  static constexpr std::size_t kMaxSteps = 3;                    // steps kept for each row

  /// Tracks up to `max_rows` rows of a table [rows, width]. Borrows the table, RowNames::ngrams and
  /// `tables` (may be null), which fetches rows before they are read.
  explicit TableHistory(Parameter& table, RowNames names = {}, std::size_t max_rows = kMaxRows,
                        TablePlacement* tables = nullptr);
  TableHistory(const TableHistory&) = delete;
  TableHistory& operator=(const TableHistory&) = delete;

  /// Counts lookups of these ids for the next update. `tokens` are their tokens (Tape::Lookup), or
  /// null.
  void look_up(std::shared_ptr<const Ids> ids, std::shared_ptr<const Ids> tokens = nullptr);

  /// An update that an optimizer is about to make.
  struct Update {
    /// The fraction by which weight decay shrinks all rows, including rows without a gradient. If
    /// nullopt, movement by decay counts as other movement.
    std::optional<double> decay = 0;
    bool moves_all = true;    // false if rows without a gradient do not change
    bool is_watched = false;  // true if the optimizer calls row_changed() for each row
  };

  /// Starts to record an update. Call it when the table has its gradient. Unless the update is
  /// watched, rows are read before and after the update. Replaces an earlier update that was not
  /// made.
  void before_update(std::uint64_t step, const Update& update);
  bool begin_step(const RowGradient& gradient) override;
  void row_changed(std::size_t i, const real* before, const real* after) override;

  /// Records the update that was made. Returns false, and does not record the step, if a watched
  /// update did not use the gradient of before_update().
  bool after_update();

  /// Discards the update of before_update() without recording it.
  void cancel_update() { awaits_update_ = false; }

  /// Returns true if the update of before_update() was made, but after_update() was not called.
  bool is_between() const { return awaits_update_ && table_->version() != version_before_; }

  /// Returns the number of rows with a gradient in this step. If the gradient is dense, only
  /// looked-up rows count.
  std::size_t rows_in_step() const { return now_.size(); }

  /// Returns the number of touched rows, tracked or not: rows that had a row gradient, or were
  /// looked up in a step with a dense gradient.
  std::size_t touched() const { return ids_.size() + not_tracked_; }
  /// Returns true if the row is touched.
  bool was_touched(std::int32_t id) const;

  /// Returns the number of rows that had a gradient: all rows after a dense gradient.
  std::size_t with_gradient() const { return is_dense_ ? table_->shape()[0] : touched(); }
  /// Returns true if the row had a gradient.
  bool had_gradient(std::int32_t id) const { return is_dense_ || was_touched(id); }

  /// A snapshot of some rows.
  struct Frame {
    std::uint64_t step;         // taken after this step
    std::vector<Row> rows;      // statistics of each row
    std::vector<double> moved;  // distance of each row from its start
  };

  /// Returns a snapshot of some rows, given by their indices into ids().
  Frame now(std::uint64_t step, std::span<const std::size_t> indices) const;
  /// Returns a snapshot of all rows of ids().
  Frame now(std::uint64_t step) const;

  /// Returns up to `count` tracked rows with the most lookups, in descending order.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  /// Returns the tracked rows, in the order of their first gradients.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// Returns the index of a row in ids(); nullopt if it is not tracked.
  std::optional<std::size_t> index_of(std::int32_t id) const;
  /// Returns the statistics of row ids()[index].
  const Row& row(std::size_t index) const { return records_[index].row; }
  /// Returns the distance of each row of ids() from its start. If the start is unknown (rows moved
  /// without a copy of the table, or decay had shrunk the row to nothing), measures from the values
  /// before the row's first gradient.
  std::vector<double> moved() const { return now(0).moved; }

  /// Returns up to kMaxSteps steps that moved row ids()[index] farthest, in descending order.
  std::vector<Step> steps(std::size_t index) const;

  /// Returns the distance of an untouched row from its start, or NaN if the start is unknown.
  /// `value` has the row's current values.
  double moved_untracked(std::int32_t id, std::span<const real> value) const;

  /// Returns the table of this history.
  const Parameter& table() const { return *table_; }
  /// Returns the current values of these rows.
  Tensor values(std::span<const std::int32_t> ids) const;
  /// Returns the kind of thing a row represents.
  RowKind kind() const { return names_.kind; }
  /// Returns the word for a row: "token", "user".
  std::string noun() const { return names_.word(); }
  /// Returns RowNames::names.
  const std::vector<std::string>& labels() const { return names_.names; }

  /// Returns the n-grams of an n-gram memory's table; null for other tables.
  const NgramCounts* ngrams() const { return ngrams_ ? &*ngrams_ : nullptr; }

  /// Returns true if the table has had a dense gradient. If so, only rows that were looked up are
  /// tracked.
  bool is_dense() const { return is_dense_; }

  /// Returns the fraction of the initial values that weight decay has left in rows that never had a
  /// gradient; nullopt without decay.
  std::optional<double> kept_without_gradient() const;
  /// Returns true if a step had an unknown decay.
  bool has_unknown_decay() const { return has_unknown_decay_; }

  /// Returns the history, with an array for each member of Row and Step. Call it between steps.
  StateDict state_dict() const;
  /// Loads a state into a new history. The table must have the values that it had when the state
  /// was saved. Throws std::invalid_argument for a state of another table.
  void load_state_dict(const StateDict& state);

 private:
  // A lookup since the last update, with its tokens or null.
  struct Lookup {
    std::shared_ptr<const Ids> ids, tokens;
  };
  // The number of lookups of a row since the last update, and the index of the first lookup.
  struct Count {
    std::uint32_t lookups = 0, first = 0;
  };
  // A tracked row. Without momentum and decay, a step touches only one of its cache lines.
  struct alignas(64) Record {
    std::array<float, kMaxSteps> kept{-1, -1, -1};  // distances moved in the kept steps
    Row row;
  };
  // One of the steps that moved a row farthest, in the order of Record::kept.
  struct KeptStep {
    std::uint64_t step = 0;  // 0: unused
    std::uint64_t lookups = 0;
    double gradient_norm = 0, moved = 0;
  };
  struct KeptText {
    Text text;
    std::uint32_t place = 0;
  };
  template <class T>
  using PoolVector = std::vector<T, PoolAllocator<T>>;

  static void for_each_column(auto& of, const auto& visit);
  void copy_start(bool knows_decay);
  void keep_latest();
  void track(std::int32_t id);
  void begin(real* first, std::int32_t id, const real* value) const;
  void settle(Row& row, const real* now, const real* then, double log_kept) const;
  KeptText text_of(std::size_t lookup) const;

  Parameter* table_;
  TablePlacement* tables_;
  RowNames names_;
  std::optional<NgramCounts> ngrams_;
  std::size_t max_rows_;
  // Lookups until the next update.
  std::vector<Lookup> waiting_;
  std::size_t lookups_ = 0;                            // total number of their ids
  std::vector<std::int32_t> looked_up_;                // the distinct ids
  std::vector<Count, ZeroedAllocator<Count>> counts_;  // one for each row
  // Tracked rows. Record index + 1 of values_ has the initial values of row ids_[index] and, if
  // keeps_latest_, its values after its last step.
  RowRecords values_;
  std::vector<std::int32_t> ids_;
  PoolVector<Record> records_;
  PoolVector<KeptStep> steps_;        // kMaxSteps for each record
  PoolVector<KeptText> texts_;        // one for each step, if tokens look rows up
  bool keeps_latest_ = false;         // true once rows may have moved without a gradient
  std::vector<bool> is_not_tracked_;  // touched rows beyond max_rows_; empty if there are none
  std::size_t not_tracked_ = 0;
  // The current step.
  std::uint64_t step_ = 0;
  bool awaits_update_ = false;        // true between before_update() and after_update()
  std::uint64_t version_before_ = 0;  // the table's version before the update
  double log_kept_after_ = 0;         // log_kept_ after the update
  Update update_;
  std::vector<std::int32_t> now_;  // rows with a gradient; if it is dense, rows looked up
  std::vector<double> norms_;      // gradient norms of these rows
  Tensor before_ = empty({0});     // values of these rows; empty if the update is watched
  bool was_watched_ = false;       // true once the watched step has begun
  std::uint64_t version_ = 0;      // the table's version after the last update
  Tensor start_ = empty({0});      // initial values of the table; empty if it was not copied
  double log_kept_ = 0;            // log of kept_without_gradient()
  bool has_decayed_ = false;
  bool has_unknown_decay_ = false;
  bool is_dense_ = false;
};

/// A view of the histories in a RowHistory.
class TableHistories {
 public:
  using List = std::vector<std::shared_ptr<TableHistory>>;  // a RowHistory's list

  /// An iterator over the list.
  struct Iterator {
    List::const_iterator at;  // points to the current history

    const TableHistory& operator*() const { return **at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };

  /// Borrows the list.
  explicit TableHistories(const List& list) : list_(list) {}

  /// Returns the number of tables.
  std::size_t size() const { return list_.size(); }
  /// Returns size() == 0.
  bool empty() const { return list_.empty(); }
  /// Returns the history of table `i`, unchecked.
  const TableHistory& operator[](std::size_t i) const { return *list_[i]; }
  /// Returns the first history.
  const TableHistory& front() const { return *list_.front(); }
  /// Returns the last history.
  const TableHistory& back() const { return *list_.back(); }
  /// Returns an iterator at the first history.
  Iterator begin() const { return {list_.begin()}; }
  /// Returns an iterator after the last history.
  Iterator end() const { return {list_.end()}; }

 private:
  const List& list_;
};

/// The histories of a model's tables that are looked up or get row gradients, in a TrainingRun or
/// your own loop. With several ranks, one history is enough, but it only counts the lookups of
/// its rank's slices.
class RowHistory : public TrainingCallback {
 public:
  /// A stopwatch for a scope.
  class Timer {
   public:
    using Clock = std::chrono::steady_clock;  // the clock for all times
    /// Adds the time from now until destruction to `cost`.
    explicit Timer(Clock::duration& cost) : cost_(cost) {}
    ~Timer() { cost_ += Clock::now() - begin_; }

   private:
    Clock::duration& cost_;
    Clock::time_point begin_ = Clock::now();
  };

  /// Borrows both arguments. `tables` fetches rows from other processes (TrainingRun::tables); null
  /// if all rows are in this process.
  explicit RowHistory(Layer& model, TablePlacement* tables = nullptr)
      : model_(model), tables_of_model_(tables) {}

  /// Returns the histories of token tables and then of other tables, both in the model's order of
  /// parameters.
  TableHistories tables() const { return TableHistories(tables_); }

  /// Returns the history of a table (EmbeddingTable::table), and starts it if necessary. Throws
  /// std::invalid_argument if the parameter is not in the model.
  TableHistory& of(Parameter& table);

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult& result) override;
  CallbackNeeds needs() const override { return {.gradients = true}; }

  /// Returns the histories of all tables, by table name. Throws std::logic_error between an update
  /// and its after_step(), so a callback that saves the histories must be added after this one.
  StateDict state_dict() const;
  /// Replaces all histories. If the model has the values of the saved step, the history continues
  /// as if it had never stopped. Throws std::invalid_argument, and changes nothing, for another
  /// model's state.
  void load_state_dict(const StateDict& state);

  /// Returns the run's step count before the first recorded step; nullopt before that step.
  std::optional<std::uint64_t> first_step() const { return first_step_; }

  /// Returns the time that the history has taken.
  Timer::Clock::duration cost() const { return cost_; }

  /// Counts the lookups of a tape. Loops without a TrainingRun call it after each backward pass.
  /// Throws std::invalid_argument if the tape only looks up tables of other models.
  void after_backward(const Tape& tape);
  /// Starts to record a step, counted from 1. Call it before each update. If the update is skipped,
  /// call it again before the next one.
  void before_update(std::uint64_t step, const Optimizer& optimizer);
  /// Records a step. Call it after each update. Throws std::logic_error, and does not record the
  /// step, if before_update() was not called for it or the optimizer used another gradient.
  void after_update(std::uint64_t step);

 private:
  TableHistory& history_of(Parameter& table, RowKind kind);
  std::shared_ptr<TableHistory> new_history(Parameter& table, RowKind kind) const;
  TableHistory& insert(TableHistories::List& list, std::shared_ptr<TableHistory> added) const;
  Layer& model_;
  TablePlacement* tables_of_model_;
  std::uint64_t begun_ = 0;  // step of the last before_update(); 0 after its update
  std::optional<std::uint64_t> first_step_;
  TableHistories::List tables_;
  Timer::Clock::duration cost_ = {};
};

}  // namespace rowgrad
