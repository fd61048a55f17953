#pragma once

// Which rows of tables get gradients in the course of training, and how far they move, and why.
//
//   RowHistory rows(model);
//   run.add(rows);
//   run.train();
//   for (const std::int32_t id : rows.tables().front().ids()) …
//
// A history follows each table of a model that a tape looks up or that has row gradients. Layers
// name the rows (Layer::row_names). Tables may be in files. N-grams that look up the rows of a
// memory's table are also counted: see ngram_counts.hpp.
//
// The first 131,072 rows of a table that get a gradient are followed. Each takes some 250 bytes,
// 180 more if tokens look it up, and its values once or twice. Later rows are only counted, a bit
// each. In addition, the table takes address space of 12 bytes a row, and memory only for the pages
// with rows that were looked up.
//
// Dense gradients and an unknown weight decay move all rows in a way that cannot be undone. Then
// the table is copied before the first such step, except if it is in a file, or if it has more than
// 131,072 rows and no dense gradient.
//
// Changes of rows between two updates, as by lookups with max_norm, count as moved by momentum,
// except for the first ones of a table.

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
  /// The statistics of a row so far.
  struct Row {
    std::uint64_t lookups = 0;  // the number of lookups of its id
    std::uint64_t steps = 0;    // number of steps with a gradient (if dense, that looked it up)
    std::uint64_t last = 0;     // the last of these steps
    double squares = 0;         // sum of the squares of its gradients in these steps
    double largest = 0;         // the largest gradient norm of a step
    double path = 0;            // sum of the distances it moved in these steps, except by decay
    double momentum = 0;        // distance moved between its gradients by momentum
    double decay = 0;           // distance moved between its gradients by weight decay
    double log_kept = 0;        // see log_kept_, when it last had a gradient
  };

  /// The tokens around a lookup: up to 8 before it and 3 after it.
  class Text {
   public:
    static constexpr std::size_t kBefore = 8;                  // tokens before the lookup
    static constexpr std::size_t kAfter = 3;                   // tokens after it
    static constexpr std::size_t kMax = kBefore + 1 + kAfter;  // tokens in all

    Text() = default;
    /// Copies the first kMax tokens.
    explicit Text(std::span<const std::int32_t> tokens)
        : size_(static_cast<std::uint32_t>(std::min(tokens.size(), kMax))) {
      std::copy_n(tokens.begin(), size_, tokens_.begin());
    }

    const std::int32_t* begin() const { return tokens_.data(); }  // the first token
    const std::int32_t* end() const { return begin() + size_; }   // behind the last one
    std::size_t size() const { return size_; }                    // the number of tokens
    bool empty() const { return size_ == 0; }                     // true if there are none
    bool operator==(const Text&) const = default;

   private:
    friend TableHistory;

    std::uint32_t size_ = 0;
    std::array<std::int32_t, kMax> tokens_{};
  };

  /// A step in which a row had a gradient.
  struct Step {
    std::uint64_t step = 0;     // counted from 1
    std::uint64_t lookups = 0;  // how often its batch looked the row up
    double gradient_norm = 0;   // before clipping
    double moved = 0;           // distance, without what weight decay took
    Text text = {};             // around the first lookup, if tokens looked the row up
    std::size_t place = 0;      // position of the lookup in the text
  };

  static constexpr std::size_t kMaxRows = std::size_t{1} << 17;  // the most rows that are followed
  static constexpr std::size_t kMaxSteps = 3;                    // steps kept for each row

  /// Borrows the table [rows, width], RowNames::ngrams and `tables`. If not null, `tables` fetches
  /// rows before they are read.
  explicit TableHistory(Parameter& table, RowNames names = {}, std::size_t most_rows = kMaxRows,
                        TablePlacement* tables = nullptr);
  TableHistory(const TableHistory&) = delete;
  TableHistory& operator=(const TableHistory&) = delete;

  /// Counts lookups before an update. `tokens` made them, unless null: see Tape::Lookup.
  void look_up(std::shared_ptr<const Ids> ids, std::shared_ptr<const Ids> tokens = nullptr);

  /// An update that an optimizer is about to make.
  struct Update {
    /// The share of each value that weight decay takes, also from rows without a gradient. If it is
    /// not known, what decay moves counts as moved by momentum.
    std::optional<double> decay = 0;
    bool moves_all = true;    // false if rows without a gradient stay as they are
    bool is_watched = false;  // true if the optimizer calls row_changed() for each row
  };

  /// Call before each update, when the table has its gradient. Rows are read before and after the
  /// update unless it is watched. If the last update was not made, this one takes its place.
  void before_update(std::uint64_t step, const Update& update);
  bool begin_step(const RowGradient& gradient) override;
  void row_changed(std::size_t i, const real* before, const real* after) override;

  /// Call after each update. Returns false, and leaves the gradients of the step out, if the
  /// optimizer did not make the update with the gradient of before_update().
  bool after_update();

  /// Forgets the update of before_update(), which is not made or not to be recorded.
  void cancel_update() { awaits_update_ = false; }

  /// Returns true if the table has changed since before_update(), but after_update() was not
  /// called.
  bool is_between() const { return awaits_update_ && table_->version() != version_before_; }

  /// Returns the number of rows that have a gradient in this step or, if it is dense, were looked
  /// up.
  std::size_t rows_in_step() const { return now_.size(); }

  /// Returns the number of rows that had a row gradient so far, or were looked up in a step with a
  /// dense gradient. Rows that are not followed are included.
  std::size_t touched() const { return ids_.size() + not_followed_; }
  /// Returns true if the row is one of them.
  bool was_touched(std::int32_t id) const;

  /// Returns the number of rows that had a gradient: all rows once there was a dense one.
  std::size_t with_gradient() const { return is_dense_ ? table_->shape()[0] : touched(); }
  /// Returns true if the row is one of them.
  bool had_gradient(std::int32_t id) const { return is_dense_ || was_touched(id); }

  /// A snapshot of some rows.
  struct Frame {
    std::uint64_t step;         // the step after which it was taken
    std::vector<Row> rows;      // the statistics of each row
    std::vector<double> moved;  // the distance of each row from where it began
  };

  /// Returns a snapshot of the rows at these places among ids(), or of all rows.
  Frame now(std::uint64_t step, std::span<const std::size_t> places) const;
  /// Returns a snapshot of all rows of ids().
  Frame now(std::uint64_t step) const;

  /// Returns the `count` rows with the most lookups, the most frequent first.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  /// Returns the rows that are followed, in the order of their first gradients.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// Returns the place of a row among ids(), none if it is not followed.
  std::optional<std::size_t> index_of(std::int32_t id) const;
  /// Returns the statistics of the row at a place.
  const Row& row(std::size_t place) const { return records_[place].row; }
  /// Returns the distance of each row of ids() from where it began. If that is not known, as in a
  /// file with an unknown decay, it is the distance from where the row was before its first
  /// gradient; so also if decay had left nothing of the row by then.
  std::vector<double> moved() const { return now(0).moved; }

  /// Returns the kMaxSteps steps that moved the row at a place farthest, the farthest first.
  std::vector<Step> steps(std::size_t place) const;

  /// Returns the distance of a row that had no gradient, or only dense ones without a lookup, from
  /// where it began. `value` is its value now. Returns NaN if it is not known where the row began.
  double moved_untracked(std::int32_t id, std::span<const real> value) const;

  const Parameter& table() const { return *table_; }       // the table of this history
  Tensor values(std::span<const std::int32_t> ids) const;  // the values of these rows now
  RowKind kind() const { return names_.kind; }             // the kind of thing a row stands for
  std::string noun() const { return names_.word(); }       // the name of a row: "token", "user"
  const std::vector<std::string>& labels() const { return names_.names; }  // see RowNames

  /// The n-grams of the rows of a memory's table; null for other tables.
  const NgramCounts* ngrams() const { return ngrams_ ? &*ngrams_ : nullptr; }

  /// Returns true if the table has had dense gradients. Then only rows that were looked up are
  /// followed, although all rows have a gradient.
  bool is_dense() const { return is_dense_; }

  /// Returns the share that weight decay has left of rows that never had a gradient; none if there
  /// was no decay.
  std::optional<double> kept_without_gradient() const;
  /// Returns true if there was decay that is not known.
  bool has_unknown_decay() const { return has_unknown_decay_; }

  /// Returns the history between two steps: a column for each member of rows and steps. Load it
  /// into a new history, with the values of the table that were saved at the same time. Throws
  /// std::invalid_argument for a state of another table.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  // A lookup since the last update, and the tokens that made it, if there are any.
  struct Lookup {
    std::shared_ptr<const Ids> ids, tokens;
  };
  // The number of lookups of a row since the last update, and the place of the first one.
  struct Count {
    std::uint32_t lookups = 0, first = 0;
  };
  // A followed row. Without momentum and decay, steps touch only one line of the cache.
  struct alignas(64) Record {
    std::array<float, kMaxSteps> kept{-1, -1, -1};  // how far the steps that are kept moved it
    Row row;
  };
  // The steps that moved a row farthest, in the order of Record::kept, and their texts.
  struct KeptStep {
    std::uint64_t step = 0;  // 0 for none
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
  void follow(std::int32_t id);
  void begin(real* first, std::int32_t id, const real* value) const;
  void settle(Row& row, const real* now, const real* then, double log_kept) const;
  KeptText text_of(std::size_t lookup) const;

  Parameter* table_;
  TablePlacement* tables_;
  RowNames names_;
  std::optional<NgramCounts> ngrams_;
  std::size_t most_rows_;
  // Lookups until the next update.
  std::vector<Lookup> waiting_;
  std::size_t lookups_ = 0;                            // number of ids in them
  std::vector<std::int32_t> looked_up_;                // the distinct ids
  std::vector<Count, ZeroedAllocator<Count>> counts_;  // of all rows
  // Followed rows. Record number place + 1 has the values with which the row began and, if
  // keeps_latest_, those after its last step.
  RowRecords values_;
  std::vector<std::int32_t> ids_;
  PoolVector<Record> records_;
  PoolVector<KeptStep> steps_;         // kMaxSteps of each of them
  PoolVector<KeptText> texts_;         // of these, if tokens look rows up
  bool keeps_latest_ = false;          // true once rows have moved without a gradient
  std::vector<bool> is_not_followed_;  // of all rows, once there are such ones
  std::size_t not_followed_ = 0;
  // The step that is being made.
  std::uint64_t step_ = 0;
  bool awaits_update_ = false;        // true between before_update() and after_update()
  std::uint64_t version_before_ = 0;  // of the table before the update
  double log_kept_after_ = 0;         // log_kept_ after the update
  Update update_;
  std::vector<std::int32_t> now_;  // rows that have a gradient or, if dense, are looked up
  std::vector<double> norms_;      // of these gradients
  Tensor before_ = empty({0});     // values of these rows; none if the optimizer watches
  bool was_watched_ = false;       // true once the watched step has begun
  std::uint64_t version_ = 0;      // of the table after the last update
  Tensor start_ = empty({0});      // of a table that is copied: all values with which it began
  double log_kept_ = 0;            // of what decay has left of rows that never had a gradient
  bool has_decayed_ = false;
  bool has_unknown_decay_ = false;
  bool is_dense_ = false;
};

/// A list of histories, which RowHistory owns.
class TableHistories {
 public:
  using List = std::vector<std::shared_ptr<TableHistory>>;  // what RowHistory has

  /// Goes over the list.
  struct Iterator {
    List::const_iterator at;  // the history that it is at

    const TableHistory& operator*() const { return **at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };

  /// Borrows the list.
  explicit TableHistories(const List& list) : list_(list) {}

  std::size_t size() const { return list_.size(); }  // the number of tables
  bool empty() const { return list_.empty(); }       // true if there are none
  /// Returns the history of table `i`, unchecked.
  const TableHistory& operator[](std::size_t i) const { return *list_[i]; }
  const TableHistory& front() const { return *list_.front(); }  // of the first table
  const TableHistory& back() const { return *list_.back(); }    // of the last table
  Iterator begin() const { return {list_.begin()}; }            // at the first table
  Iterator end() const { return {list_.end()}; }                // behind the last table

 private:
  const List& list_;
};

/// The histories of all tables of a model that are looked up or get row gradients, in a TrainingRun
/// or a loop of the user. With several ranks, one of them is enough. Each rank knows the lookups of
/// its own shards only.
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

  /// Returns the tables of tokens and then the others, each in the order of the model's parameters.
  TableHistories tables() const { return TableHistories(tables_); }

  /// Returns the history of a table (EmbeddingTable::table), which begins now if it has none.
  /// Throws std::invalid_argument for a parameter that is not one of the model.
  TableHistory& of(Parameter& table);

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult& result) override;
  CallbackNeeds needs() const override { return {.gradients = true}; }

  /// Returns the histories of all tables after a step, by the names of the tables. With the values
  /// of the model from the same time, a loaded history goes on like one that never stopped. Loading
  /// replaces all of them. Throws std::invalid_argument for a state of another model, and then
  /// changes nothing.
  ///
  /// A callback that saves the history must be added to the run after it: state_dict() throws
  /// std::logic_error if an update was made whose after_step() was not called yet.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

  /// The number of steps that the run had made before the first step in this history. None before
  /// that step.
  std::optional<std::uint64_t> first_step() const { return first_step_; }

  /// Returns the time that the history has taken so far.
  Timer::Clock::duration cost() const { return cost_; }

  /// For loops without a TrainingRun: call after each backward, before each update, and after it.
  /// `step` counts from 1. after_backward() throws std::invalid_argument if the tape looks up
  /// tables of other models only. If the update of before_update() is not made, call
  /// before_update() for the next one. after_update() throws std::logic_error if before_update()
  /// was not called for this step, or if the optimizer made the step with another gradient: then
  /// the step is not recorded.
  void after_backward(const Tape& tape);
  void before_update(std::uint64_t step, const Optimizer& optimizer);
  void after_update(std::uint64_t step);

 private:
  TableHistory& history_of(Parameter& table, RowKind kind);
  std::shared_ptr<TableHistory> new_history(Parameter& table, RowKind kind) const;
  TableHistory& insert(TableHistories::List& list, std::shared_ptr<TableHistory> added) const;
  Layer& model_;
  TablePlacement* tables_of_model_;
  std::uint64_t begun_ = 0;  // the step whose update is awaited; 0 for none
  std::optional<std::uint64_t> first_step_;
  TableHistories::List tables_;
  Timer::Clock::duration cost_ = {};
};

}  // namespace rowgrad
