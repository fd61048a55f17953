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
// Each row of a table takes 12 bytes. Rows that had a gradient take some 250 bytes, 180 more if
// tokens look them up, up to twice their values, and 80 bytes in each of up to 20 frames: up to
// 131,072 rows of a table, the first ones. Others are counted, a bit each. Tables may be in files.
// One all of whose rows move in a way that cannot be told backwards, by dense gradients or a decay
// that is not known, is copied before the first such step: unless it is in a file, or has more than
// 131,072 rows and no dense gradient. Of the table of a memory, the n-grams that look rows up are
// also counted: see ngram_counts.hpp.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/base/buffer_pool.hpp>
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
    std::uint64_t lookups = 0;  // how often its id was looked up, in all
    std::uint64_t steps = 0;    // number of steps with a gradient (if dense, that looked it up)
    std::uint64_t last = 0;     // the last of these steps
    double squares = 0;         // sum of the squares of its gradients in these steps
    double largest = 0;         // the largest gradient norm of a step
    double path = 0;            // sum of the distances it moved in these steps, except by decay
    double momentum = 0;        // distance moved between its gradients by momentum
    double decay = 0;           // distance moved between its gradients by weight decay
    double log_kept = 0;        // see log_kept_, when it last had a gradient
  };

  /// Some tokens around a lookup: up to 8 before it and 3 after it, in the same text.
  class Text {
   public:
    static constexpr std::size_t kBefore = 8, kAfter = 3, kMost = kBefore + 1 + kAfter;

    Text() = default;
    /// Copies at most kMost tokens.
    explicit Text(std::span<const std::int32_t> tokens)
        : size_(static_cast<std::uint32_t>(tokens.size())) {
      std::ranges::copy(tokens, tokens_.begin());
    }

    const std::int32_t* begin() const { return tokens_.data(); }
    const std::int32_t* end() const { return begin() + size_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    bool operator==(const Text&) const = default;

   private:
    friend TableHistory;

    std::uint32_t size_ = 0;
    std::array<std::int32_t, kMost> tokens_{};
  };

  /// A step in which a row had a gradient.
  struct Step {
    std::uint64_t step = 0;     // counted from 1
    std::uint64_t lookups = 0;  // how often its batch looked the row up
    double gradient_norm = 0;   // before clipping
    double moved = 0;           // distance, without what weight decay took
    Text text = {};             // around the first lookup, if tokens looked the row up
    std::size_t place = 0;      // of the lookup in the text
  };

  static constexpr std::size_t kMostRows = std::size_t{1} << 17;  // the most rows that are followed
  static constexpr std::size_t kMostSteps = 3;                    // steps that are kept of each row

  /// The table [rows, width] must outlive this, and so must RowNames::ngrams. `tables`, if not
  /// null, fetches rows before they are read.
  explicit TableHistory(Parameter& table, RowNames names = {}, std::size_t most_rows = kMostRows,
                        TablePlacement* tables = nullptr);
  TableHistory(const TableHistory&) = delete;
  TableHistory& operator=(const TableHistory&) = delete;

  /// Counts lookups before an update, made by `tokens` if they are not null: see Tape::Lookup.
  void look_up(std::shared_ptr<const Ids> ids, std::shared_ptr<const Ids> tokens = nullptr);

  /// Call before each update, when the table has its gradient. `decay` is the share of each value
  /// that weight decay takes in this step, also from rows without a gradient. If it is not known,
  /// what it moves counts as moved by momentum. With `is_watched`, the optimizer calls
  /// row_changed() for each row, and moves others only if it `moves_all`. Otherwise, rows are read
  /// before and after the update.
  void before_update(std::uint64_t step, std::optional<double> decay, bool is_watched = false,
                     bool moves_all = true);
  void row_changed(std::size_t i, const real* before, const real* after) override;

  /// Call after each update.
  void after_update();

  /// The number of rows that had a gradient in this step or, if it was dense, were looked up.
  std::size_t rows_now() const { return now_.size(); }

  /// The rows that have had one so far, or that were looked up where gradients are dense; also
  /// those that are not followed.
  std::size_t touched() const { return ids_.size() + not_followed_; }
  bool was_touched(std::int32_t id) const;

  /// The same with all rows of a table that has had dense gradients, in which each row has one.
  std::size_t with_gradient() const { return is_dense_ ? table_->shape()[0] : touched(); }
  bool had_gradient(std::int32_t id) const { return is_dense_ || was_touched(id); }

  /// The statistics of some rows.
  struct Frame {
    std::uint64_t step;         // after which it was taken
    std::vector<Row> rows;      // one for each of the rows
    std::vector<double> moved;  // distance of each of them from where it began
  };

  /// Returns what has happened by now to the rows at these places among ids(), or to all of them.
  Frame now(std::uint64_t step, std::span<const std::size_t> places) const;
  Frame now(std::uint64_t step) const;

  /// The rows that had most lookups, the most frequent first.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  /// The rows that had a gradient, in the order of their first ones; what happened to each, and how
  /// far each is from where it began or, where that cannot be told, from where it was before its
  /// first gradient: in a table in a file with a decay that is not known, and where decay had left
  /// nothing of the row by then.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::optional<std::size_t> place_of(std::int32_t id) const;  // among these, if it is there
  const Row& row(std::size_t place) const { return records_[place].row; }
  std::vector<double> moved() const { return now(0).moved; }

  /// Returns the kMostSteps steps that moved the row at a place farthest, the farthest first.
  std::vector<Step> steps(std::size_t place) const;

  /// How far a row that is not followed, as it had no gradient, or a dense one without a lookup, is
  /// from where it began, if this is its value now. NaN if it is not known where that was.
  double moved_unfollowed(std::int32_t id, std::span<const real> value) const;

  const Parameter& table() const { return *table_; }       // whose history it is
  Tensor values(std::span<const std::int32_t> ids) const;  // of these rows, as they are now
  RowKind kind() const { return names_.kind; }             // what its rows stand for
  std::string noun() const { return names_.word(); }       // one of them is a "token", a "user"
  const std::vector<std::string>& labels() const { return names_.names; }  // see RowNames

  /// The n-grams of the rows of a memory's table; null for other tables.
  const NgramCounts* ngrams() const { return ngrams_ ? &*ngrams_ : nullptr; }

  /// Whether the table has had dense gradients: then all rows have one in each of these steps, and
  /// only those that were looked up are followed.
  bool is_dense() const { return is_dense_; }

  /// What weight decay has left of rows that never had a gradient, none if there was no decay; and
  /// whether there is decay that is not known.
  std::optional<double> kept_without_gradient() const;
  bool has_unknown_decay() const { return has_unknown_decay_; }

  /// The history between two steps, except its frames: a column for each member of rows and steps.
  /// Load it into a new history, with the values of the table that were saved at the same time.
  /// Throws std::invalid_argument for a state of another table.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

 private:
  // A lookup since the last update, and the tokens that made it, if there are any.
  struct Lookup {
    std::shared_ptr<const Ids> ids, tokens;
  };
  // Lookups of a row since the last update, and the place of the first one among all.
  struct Count {
    std::uint32_t lookups = 0, first = 0;
  };
  // A followed row. Without momentum and decay, steps touch only one line of the cache.
  struct alignas(64) Record {
    std::array<float, kMostSteps> kept{-1, -1, -1};  // how far the steps that are kept moved it
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
  std::size_t lookups_ = 0;              // number of ids in them
  std::vector<std::int32_t> looked_up_;  // the distinct ids
  PoolVector<Count> counts_;             // of all rows
  // Followed rows. Record number place + 1 has the values with which the row began and, if
  // keeps_latest_, those after its last step.
  RowRecords values_;
  std::vector<std::int32_t> ids_;
  PoolVector<Record> records_;
  PoolVector<KeptStep> steps_;         // kMostSteps of each of them
  PoolVector<KeptText> texts_;         // of these, if tokens look rows up
  bool keeps_latest_ = false;          // true once rows have moved without a gradient
  std::vector<bool> is_not_followed_;  // of all rows, once there are such ones
  std::size_t not_followed_ = 0;
  // The step that is being made.
  std::uint64_t step_ = 0;
  double decay_ = 0;
  double log_kept_before_ = 0;             // log_kept_ without this step
  std::vector<std::int32_t> now_;          // rows that have a gradient or, if dense, are looked up
  std::vector<double> norms_;              // of these gradients
  Tensor before_ = empty({0});             // values of these rows; none if the optimizer watches
  std::atomic<bool> was_watched_ = false;  // true once row_changed() was called
  std::uint64_t version_ = 0;              // of the table after the last update
  Tensor start_ = empty({0});  // of a table that is copied: all values with which it began
  double log_kept_ = 0;        // of what decay has left of rows that never had a gradient
  bool has_decayed_ = false;
  bool has_unknown_decay_ = false;
  bool is_dense_ = false;
};

/// A list of histories.
class TableHistories {
 public:
  using List = std::vector<std::shared_ptr<TableHistory>>;

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

  std::size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  const TableHistory& operator[](std::size_t i) const { return *list_[i]; }
  const TableHistory& front() const { return *list_.front(); }
  const TableHistory& back() const { return *list_.back(); }
  Iterator begin() const { return {list_.begin()}; }
  Iterator end() const { return {list_.end()}; }

 private:
  const List& list_;
};

/// The histories of all tables of a model that are looked up or get row gradients, in a TrainingRun
/// or a loop of one's own. With several ranks, each knows the lookups of its own shards only; one
/// rank is enough.
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

  /// The tables of tokens first, then the others, each in the order of the model's parameters.
  TableHistories tables() const { return TableHistories(tables_); }

  /// The history of a table (EmbeddingTable::table), which begins now if it has none.
  /// Throws std::invalid_argument for a parameter that is not one of the model.
  TableHistory& of(Parameter& table);

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult& result) override;
  CallbackNeeds needs() const override { return {.gradients = true}; }

  /// The histories of all tables after a step, by the names of the tables. With the values of the
  /// model from the same time, a loaded history goes on like one that never stopped. Loading
  /// replaces all of them. Throws std::invalid_argument for a state of another model, and then
  /// changes nothing.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

  /// The number of steps that the run had made before the first step in this history. None before
  /// that step.
  std::optional<std::uint64_t> first_step() const { return first_step_; }

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
