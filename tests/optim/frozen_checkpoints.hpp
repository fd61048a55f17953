#pragma once

// Trainings whose checkpoints are kept in tests/golden/frozen: how each is made, goes on and is
// saved. What they compute must not change: other versions of the library wrote the files. A new
// recipe gets a new name, and write_frozen_checkpoints.cpp adds its files.

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/any_optimizer.hpp"
#include <rowgrad/rowgrad.hpp>

namespace rowgrad::testing {

/// A training that can be stopped, saved, loaded and continued. Its table is in memory, or in a
/// file that outlives it.
class FrozenTraining {
 public:
  virtual ~FrozenTraining() = default;

  /// Makes the steps from … to − 1, and returns their losses, if there are any.
  virtual std::vector<double> train(int from, int to) = 0;

  /// As a program saves it.
  virtual Checkpoint state() const = 0;
  virtual void load(const Checkpoint& state) = 0;

  /// All parameters, up to date.
  virtual Checkpoint values() const = 0;
};

struct FrozenCase {
  std::string name;  // of its files, without what follows the number type
  std::function<std::unique_ptr<FrozenTraining>(TableFile* file)> make;
  int saved;           // the steps before it was saved
  int end;             // all steps, after which its values are known
  int roundings = 16;  // by how many spacings of numbers at 1 another machine may differ each step
  std::optional<TableFileOptions> file = std::nullopt;  // of a table in a file
  bool further = false;  // whether the file has one more checkpoint, two steps later

  std::string file_name(const std::string& ending) const {
    return name + (sizeof(real) == 4 ? ".float." : ".double.") + ending;
  }
};

// --- A table and a vector, with made-up gradients ------------------------------------------------

/// (7 · step + 5 · row + 3 · column + step · row) modulo 17, from −1/2 to 1/2 in steps of 1/16: all
/// number types have it.
inline real frozen_gradient(int step, std::size_t row, std::size_t column) {
  const auto s = static_cast<std::size_t>(step);
  return static_cast<real>((7 * s + 5 * row + 3 * column + s * row) % 17) / 16 - real{0.5};
}

inline Tensor frozen_gradients(int step, const std::vector<std::int32_t>& rows, std::size_t width) {
  Tensor result = empty({rows.size(), width});
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t column = 0; column < width; ++column)
      result(i, column) = frozen_gradient(step, static_cast<std::size_t>(rows[i]), column);
  return result;
}

struct FrozenModel : Layer {
  explicit FrozenModel(Tensor start) : table(*this, "table", std::move(start)) {}
  explicit FrozenModel(TableFile& file) : table(*this, "table", file_rows(file)) {}

  Parameter table;
  Parameter bias{*this, "bias", full({5}, real{0.25})};
};

struct TableRecipe {
  std::vector<AnyOptions> optimizers;                // which take turns of 4 steps
  std::optional<SgdOptions> of_bias = std::nullopt;  // those of its own group, if any
  std::optional<Schedule> schedule = std::nullopt;
  bool tied = false;            // every sixth gradient of the table is dense
  Shape shape = {10, 9};        // a vector of AVX2 and a number, or of AVX-512 in part
  bool starts_at_zero = false;  // for large tables, of which only rows with gradients are saved
};

class FrozenTable : public FrozenTraining {
 public:
  FrozenTable(const TableRecipe& recipe, TableFile* file)
      : recipe_(recipe), model_(make_model(recipe, file)) {
    for (const AnyOptions& options : recipe.optimizers)
      optimizers_.push_back(recipe.of_bias ? std::make_unique<SGD>(std::vector<SGD::Group>{
                                                 {{&model_->table}, std::get<SgdOptions>(options)},
                                                 {{&model_->bias}, *recipe.of_bias}})
                                           : make_optimizer(options, model_->parameters()));
    if (recipe.schedule) schedule_.emplace(*optimizers_[0], *recipe.schedule);
  }

  std::vector<double> train(int from, int to) override {
    for (int i = from; i < to; ++i) {
      Optimizer& optimizer = *optimizers_[static_cast<std::size_t>(i / 4) % optimizers_.size()];
      optimizer.zero_grad();
      const std::size_t rows = recipe_.shape[0], width = recipe_.shape[1];
      if (recipe_.tied && i % 6 == 5) {
        model_->table.add_gradient(frozen_gradients(i, all_rows(), width));
      } else {
        const std::vector<std::int32_t> ids = rows_at(i, rows);
        model_->table.add_gradient(
            RowGradient(recipe_.shape, ids, frozen_gradients(i, ids, width)));
      }
      Tensor bias = frozen_gradients(i, {0}, 5);
      bias.reshape(Shape{5});
      model_->bias.add_gradient(std::move(bias));
      optimizer.step();
      if (schedule_) schedule_->step();
    }
    return {};
  }

  Checkpoint state() const override {
    Checkpoint all;  // first the optimizers, as to read rows replays the steps that they are owed
    for (std::size_t i = 0; i < optimizers_.size(); ++i)
      all.put(optimizer_name(i), optimizers_[i]->state_dict());
    all.put("model", recipe_.starts_at_zero ? values() : model_->state_dict());
    if (schedule_) all.put("schedule", schedule_->state_dict());
    return all;
  }

  void load(const Checkpoint& state) override {
    const Checkpoint model = state.part("model");
    if (recipe_.starts_at_zero) {
      const auto ids = all_rows();
      model_->table.assign_rows(ids, model.tensor("table", {ids.size(), recipe_.shape[1]}));
      model_->bias.assign(model.tensor("bias", {5}));
    } else {
      model_->load_state_dict(model);
    }
    for (std::size_t i = 0; i < optimizers_.size(); ++i)
      optimizers_[i]->load_state_dict(state.part(optimizer_name(i)));
    if (schedule_) schedule_->load_state_dict(state.part("schedule"));
  }

  Checkpoint values() const override {
    Checkpoint all;
    all.put("table", model_->table.rows(all_rows()));
    all.put("bias", model_->bias.copy());
    return all;
  }

 private:
  static std::unique_ptr<FrozenModel> make_model(const TableRecipe& recipe, TableFile* file) {
    if (file != nullptr) return std::make_unique<FrozenModel>(*file);
    Tensor start = sparse_zeros(recipe.shape);
    for (std::size_t k = 0; k < start.size() && !recipe.starts_at_zero; ++k)
      start.data()[k] = (static_cast<real>(5 * k % 13) - 6) / 8;
    return std::make_unique<FrozenModel>(std::move(start));
  }

  // Row 0 never has a gradient, row 1 only at first, the last one always, and others in turn.
  static std::vector<std::int32_t> rows_at(int step, std::size_t rows) {
    const auto last = static_cast<std::int32_t>(rows - 1);
    if (step < 4) return {1, 2 + step % 7, last};
    return {2 + step % 7, last};
  }

  // Those that are compared: of a large table, those that have gradients, and one that has none.
  std::vector<std::int32_t> all_rows() const {
    std::vector<std::int32_t> ids(10);
    std::iota(ids.begin(), ids.end(), 0);
    ids.back() = static_cast<std::int32_t>(recipe_.shape[0] - 1);
    return ids;
  }

  static std::string optimizer_name(std::size_t i) {
    return i == 0 ? "optimizer" : concat("optimizer_", i);
  }

  TableRecipe recipe_;
  std::unique_ptr<FrozenModel> model_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::optional<LearningRateSchedule> schedule_;
};

// --- A training run ------------------------------------------------------------------------------

constexpr std::size_t kFrozenVocabulary = 16, kFrozenWidth = 4, kFrozenContext = 5;

class FrozenLanguageModel : public LanguageModel {
 public:
  template <class Table>
  FrozenLanguageModel(Table&& table, Random& random)
      : token(*this, "token", std::forward<Table>(table)),
        dropout(*this, "dropout", 0.2),
        head(*this, "head", kFrozenWidth, kFrozenVocabulary, random) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    return head.forward(dropout.forward(token.forward(tape, ids)));
  }
  std::size_t context() const override { return kFrozenContext; }
  std::size_t vocabulary() const override { return kFrozenVocabulary; }

  Part<Embedding> token;
  Part<Dropout> dropout;
  Part<Linear> head;
};

// Ids of which the higher ones are rare, and the highest never occurs.
inline TokenWindows frozen_windows() {
  std::vector<std::int32_t> text(121);
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<std::int32_t>(i % 11 == 0 ? i / 11 + 4 : i * i % 7);
  return TokenWindows(to_ids(text), {.context = kFrozenContext, .stride = kFrozenContext});
}

class FrozenRun : public FrozenTraining {
 public:
  FrozenRun(const AnyOptions& options, std::size_t shards, TableFile* file)
      : model_(file != nullptr ? std::make_unique<FrozenLanguageModel>(*file, random_)
                               : std::make_unique<FrozenLanguageModel>(start(random_), random_)),
        optimizer_(make_optimizer(options, model_->parameters())),
        schedule_(*optimizer_, Schedule::cosine({.steps = 16})),
        run_({.model = *model_,
              .optimizer = *optimizer_,
              .loader = loader_,
              .random = random_,
              .schedule = &schedule_,
              .clip_norm = 0.5,
              .accumulate = 2,
              .shards = shards}) {}

  std::vector<double> train(int /*from*/, int to) override {
    struct : RunObserver {
      void after_step(const TrainingRun&, double loss) override { losses.push_back(loss); }
      std::vector<double> losses;
    } watched;
    run_.observe(watched);
    run_.train(static_cast<std::size_t>(to));
    run_.forget(watched);
    return watched.losses;
  }

  Checkpoint state() const override {
    Checkpoint all;
    all.put("run", run_.state_dict());
    return all;
  }
  // Runs of 0.2.0 are refused; what they had is in this version's state as well.
  void load(const Checkpoint& state) override {
    Checkpoint run = state.part("run");
    if (run.contains("history.epoch")) return run_.load_state_dict(run);
    run.put("arithmetic", "that of 0.2.0");
    const std::vector<std::int64_t> steps = run.integers("history.steps");
    run.erase("history.steps");
    run.put("history.steps", std::vector<double>(steps.begin(), steps.end()));
    std::vector<double> epochs(steps.size());
    std::iota(epochs.begin(), epochs.end(), 1);
    run.put("history.epoch", epochs);
    const std::vector<double> none(steps.size(), std::numeric_limits<double>::quiet_NaN());
    for (const char* name : {"history.training_accuracy", "history.validation_accuracy"})
      if (!run.contains(name)) run.put(name, none);
    run_.load_state_dict(run);
  }

  Checkpoint values() const override {
    std::vector<std::int32_t> ids(kFrozenVocabulary);
    std::iota(ids.begin(), ids.end(), 0);
    Checkpoint all;
    all.put("token", model_->token.weight.rows(ids));
    for (const Parameter* parameter : model_->head.parameters())
      all.put(parameter->name(), parameter->copy());
    return all;
  }

 private:
  static Tensor start(Random& random) {
    return normal_table("FrozenRun", kFrozenVocabulary, kFrozenWidth, random);
  }

  Random random_{1};
  std::unique_ptr<FrozenLanguageModel> model_;
  std::unique_ptr<Optimizer> optimizer_;
  DataLoader loader_{frozen_windows(), {.batch = 4, .shuffle = true}};
  LearningRateSchedule schedule_;
  TrainingRun run_;
};

// --- The cases -----------------------------------------------------------------------------------

/// Those of this number type.
inline std::vector<FrozenCase> frozen_cases() {
  std::vector<FrozenCase> cases;
  // And the last one with its table in a file, which has so many states.
  const auto add_in_file = [&](std::size_t states) {
    FrozenCase in_file = cases.back();
    in_file.name += "_in_file";
    in_file.file = {.rows = 10, .width = 9, .states = states, .seed = 5, .deviation = 0.5};
    cases.push_back(in_file);
  };
  const auto add = [&](const char* name, const TableRecipe& recipe,
                       std::optional<std::size_t> states_in_file = {}) -> FrozenCase& {
    cases.push_back(
        {.name = name,
         .make = [recipe](TableFile* file) { return std::make_unique<FrozenTable>(recipe, file); },
         .saved = 29,
         .end = 41});
    if (states_in_file) add_in_file(*states_in_file);
    return cases.back();
  };
  const auto add_run = [&](const char* name, std::size_t shards, const AnyOptions& options) {
    // Gradients are sums of about 20 products, each of several roundings.
    cases.push_back(
        {.name = name,
         .make =
             [=](TableFile* file) { return std::make_unique<FrozenRun>(options, shards, file); },
         .saved = 4,
         .end = 11,
         .roundings = 64});
  };
  const SgdOptions momentum{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  const AdamOptions adam{.learning_rate = 0.01};
  const AdamWOptions adamw{.learning_rate = 0.01, .weight_decay = 0.1};
  const auto warmup = Schedule::linear_warmup({.steps = 8}).then(Schedule::cosine({.steps = 40}));

  add("sgd_momentum", {{momentum}}, 1).further = true;
  // Of this one, the file names its format. The others are older.
  add("sgd_momentum_format_1", {{momentum}});
  add("sgd_nesterov", {{SgdOptions{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}}});
  add("sgd_dampening", {{SgdOptions{.learning_rate = 0.05, .momentum = 0.8, .dampening = 0.5}}});
  add("sgd_decay", {{SgdOptions{.learning_rate = 0.05, .weight_decay = 0.1}}}, 0);
  add("adam", {{adam}});
  add("adam_amsgrad", {{AdamOptions{.learning_rate = 0.01, .amsgrad = true}}}, 3).further = true;
  add("adam_replayed", {{AdamOptions{.learning_rate = 0.002, .weight_decay = 0.1}}}, 2);
  add("adagrad",
      {{AdagradOptions{
          .learning_rate = 0.02, .learning_rate_decay = 0.01, .initial_accumulator = 0.125}}});
  add("adagrad_replayed", {{AdagradOptions{.learning_rate = 0.002, .weight_decay = 0.1}}}, 1);
  add("rmsprop", {{RmsPropOptions{.learning_rate = 0.01, .alpha = 0.9}}});
  add("rmsprop_centered",
      {{RmsPropOptions{.learning_rate = 0.01,
                       .alpha = 0.9,
                       .epsilon = 0.01,
                       .momentum = 0.8,
                       .centered = true}}},
      3);
  add("rmsprop_replayed",
      {{RmsPropOptions{.learning_rate = 0.002, .alpha = 0.9, .weight_decay = 0.1}}});
  add("sgd_touched_only",
      {{SgdOptions{.learning_rate = 0.05, .momentum = 0.9, .rows = RowUpdates::kTouchedOnly}}});
  add("adam_touched_only", {{AdamOptions{.learning_rate = 0.01, .rows = RowUpdates::kTouchedOnly}}},
      2);
  add("adamw_schedule", {.optimizers = {adamw}, .schedule = warmup}, 2);
  add("sgd_schedule", {.optimizers = {momentum}, .schedule = Schedule::one_cycle({.steps = 50})});
  add("adamw_tied", {.optimizers = {adamw}, .tied = true});
  add("two_in_turn", {{momentum, adam}}).saved = 31;  // three steps into the second one's turn
  add("sgd_groups",
      {{momentum}, SgdOptions{.learning_rate = 0.1, .momentum = 0.5, .nesterov = true}}, 1);
  // Of 1 MiB, so rows of zeros are not saved.
  add("adamw_large", {.optimizers = {adamw}, .shape = {2048, 128}, .starts_at_zero = true});
  // Hundreds of steps, each different, that rows are owed.
  FrozenCase& lengthy =
      add("sgd_long_history", {.optimizers = {SgdOptions{.learning_rate = 0.05, .momentum = 0.9}},
                               .schedule = Schedule::cosine({.steps = 1000})});
  lengthy.saved = 600;
  lengthy.end = 612;

  // The epsilon bounds what a rounding of a gradient becomes in a step.
  const AdamWOptions smooth{.learning_rate = 0.01, .epsilon = 0.01, .weight_decay = 0.1};
  add_run("run_sgd", 1, momentum);
  add_run("run_adamw", 1, smooth);
  add_in_file(2);
  cases.back().file->rows = kFrozenVocabulary;
  cases.back().file->width = kFrozenWidth;
  add_run("run_adamw_shards", 2, smooth);

  // Of double some of each kind, as the files of all take several hundred kilobytes.
  constexpr std::array<std::string_view, 12> kInDouble{
      "sgd_momentum",     "sgd_momentum_in_file",
      "adam_amsgrad",     "adagrad",
      "rmsprop_centered", "rmsprop_centered_in_file",
      "adamw_schedule",   "adamw_schedule_in_file",
      "adamw_tied",       "two_in_turn",
      "sgd_groups",       "run_sgd"};
  if (sizeof(real) != 4)
    std::erase_if(cases, [&](const FrozenCase& item) {
      return std::ranges::find(kInDouble, item.name) == kInDouble.end();
    });
  return cases;
}

}  // namespace rowgrad::testing
