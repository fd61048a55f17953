// Loads checkpoints and table files of earlier versions (golden/compat) and continues training. The
// results must match the saved results within rounding errors. Do not change the existing cases.
// The files of a new case are written if ROWGRAD_WRITE_COMPAT is set and they do not exist.

#include "tests/optim/optimizers.hpp"

namespace {

const std::filesystem::path kCompatFiles = std::filesystem::path(ROWGRAD_TEST_DATA) / "compat";

struct CompatCase {
  std::string name;                    // file name, without precision and extension
  std::vector<AnyOptions> optimizers;  // they take turns, each for 4 steps
  // The number of slots in a table file; if set, the case also runs with its table in a file.
  std::optional<std::size_t> slots_in_file = std::nullopt;
  bool further = false;  // true if the table file has another checkpoint, two steps later
  std::optional<Schedule> schedule = std::nullopt;
  bool tied = false;            // every sixth gradient of the table is dense
  Shape shape = {10, 9};        // 9 floats: an AVX2 vector and one float
  bool starts_at_zero = false;  // values start at 0; only compared_rows() are saved
  int saved = 29;               // steps before the state was saved
  int end = 41;                 // steps before the final values were saved

  bool in_file() const { return name.ends_with("_in_file"); }
  std::filesystem::path path(const std::string& ending) const {
    return kCompatFiles / (name + (sizeof(real) == 4 ? ".float." : ".double.") + ending);
  }
};

void PrintTo(const CompatCase& item, std::ostream* out) { *out << item.name; }

// Returns ((7 · step + 5 · row + 3 · column + step · row) modulo 17) / 16 − 1/2, which is exact in
// float and double.
Tensor compat_gradients(int step, const Ids32& rows, std::size_t width) {
  const auto s = static_cast<std::size_t>(step);
  Tensor result = empty({rows.size(), width});
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t column = 0; column < width; ++column) {
      const auto row = static_cast<std::size_t>(rows[i]);
      result(i, column) =
          static_cast<real>((7 * s + 5 * row + 3 * column + s * row) % 17) / 16 - real{0.5};
    }
  return result;
}

struct CompatModel : Layer {
  explicit CompatModel(Tensor start) : table(*this, "table", std::move(start)) {}
  explicit CompatModel(TableFile& file) : table(*this, "table", file_rows(file)) {}

  Parameter table;
  Parameter bias{*this, "bias", full({5}, real{0.25})};
};

// The training of a table, in memory or in a file, and a vector with the gradients above.
class CompatTraining {
 public:
  CompatTraining(const CompatCase& item, TableFile* file)
      : item_(item), model_(make_model(item, file)) {
    for (const AnyOptions& options : item.optimizers)
      optimizers_.push_back(make_optimizer(options, model_->parameters()));
    if (item.schedule) schedule_.emplace(*optimizers_[0], *item.schedule);
  }

  // Makes the steps from … to − 1.
  void train(int from, int to) {
    for (int i = from; i < to; ++i) {
      Optimizer& optimizer = *optimizers_[static_cast<std::size_t>(i / 4) % optimizers_.size()];
      optimizer.zero_grad();
      const std::size_t width = item_.shape[1];
      if (item_.tied && i % 6 == 5) {
        model_->table.add_gradient(compat_gradients(i, compared_rows(), width));
      } else {  // row 0 never has a gradient, row 1 only in early steps, the last row always
        Ids32 ids{2 + i % 7, compared_rows().back()};
        if (i < 4) ids.insert(ids.begin(), 1);
        model_->table.add_gradient(RowGradient(item_.shape, ids, compat_gradients(i, ids, width)));
      }
      Tensor bias = compat_gradients(i, {0}, 5);
      bias.reshape(Shape{5});
      model_->bias.add_gradient(std::move(bias));
      optimizer.step();
      if (schedule_) schedule_->step();
    }
  }

  StateDict state() const {
    StateDict all;  // optimizers first: reading rows replays deferred steps
    for (std::size_t i = 0; i < optimizers_.size(); ++i)
      all.put(optimizer_name(i), optimizers_[i]->state_dict());
    all.put("model", item_.starts_at_zero ? values() : model_->state_dict());
    if (schedule_) all.put("schedule", schedule_->state_dict());
    return all;
  }

  void load(const StateDict& state) {
    const StateDict model = state.part("model");
    if (item_.starts_at_zero) {
      const Ids32 ids = compared_rows();
      model_->table.assign_rows(ids, model.tensor("table", {ids.size(), item_.shape[1]}));
      model_->bias.assign(model.tensor("bias", {5}));
    } else {
      model_->load_state_dict(model);
    }
    for (std::size_t i = 0; i < optimizers_.size(); ++i)
      optimizers_[i]->load_state_dict(state.part(optimizer_name(i)));
    if (schedule_) schedule_->load_state_dict(state.part("schedule"));
  }

  // Returns the up-to-date values to compare.
  StateDict values() const {
    StateDict all;
    all.put("table", model_->table.rows(compared_rows()));
    all.put("bias", model_->bias.copy());
    return all;
  }

 private:
  static std::unique_ptr<CompatModel> make_model(const CompatCase& item, TableFile* file) {
    if (file != nullptr) return std::make_unique<CompatModel>(*file);
    Tensor start = sparse_zeros(item.shape);
    for (std::size_t k = 0; k < start.size() && !item.starts_at_zero; ++k)
      start.data()[k] = (static_cast<real>(5 * k % 13) - 6) / 8;
    return std::make_unique<CompatModel>(std::move(start));
  }

  // Returns the rows that are saved and compared. In a large table, these are all rows with a
  // gradient, and one without.
  Ids32 compared_rows() const {
    Ids32 ids = all_rows(10);
    ids.back() = static_cast<std::int32_t>(item_.shape[0] - 1);
    return ids;
  }

  static std::string optimizer_name(std::size_t i) {
    return i == 0 ? "optimizer" : concat("optimizer_", i);
  }

  CompatCase item_;
  std::unique_ptr<CompatModel> model_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::optional<LearningRateSchedule> schedule_;
};

void write(const CompatCase& item) {
  std::unique_ptr<TableFile> file;
  if (item.in_file()) {
    const TableFileOptions options{
        .rows = 10, .width = 9, .slots = *item.slots_in_file, .seed = 5, .init_std = 0.5};
    file = std::make_unique<TableFile>(item.path("table"), options);
  }
  CompatTraining training(item, file.get());
  int made = 0;
  const auto train_and_save = [&](int to) {
    training.train(std::exchange(made, to), to);
    if (file) file->checkpoint();
  };
  train_and_save(item.saved / 2);  // so that the previous journal also has rows
  train_and_save(item.saved);
  StateDict all = training.state();
  all.put("now", training.values());
  if (item.further) train_and_save(item.saved + 2);
  // A table file has no checkpoint after these steps, so opening the file must undo them.
  training.train(made, item.end);
  all.put("later", training.values());
  write_safetensors(item.path("safetensors"), all);
}

// Returns the cases for the precision of `real`.
std::vector<CompatCase> compat_cases() {
  const SgdOptions momentum{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  const SgdOptions dampening{.learning_rate = 0.05, .momentum = 0.8, .dampening = 0.5};
  const SgdOptions sgd_touched{
      .learning_rate = 0.05, .momentum = 0.9, .rows = RowUpdates::kTouchedOnly};
  const AdamOptions adam{.learning_rate = 0.01};
  const AdamOptions adam_touched{.learning_rate = 0.01, .rows = RowUpdates::kTouchedOnly};
  const AdamWOptions adamw{.learning_rate = 0.01, .weight_decay = 0.1};
  const AdagradOptions adagrad{
      .learning_rate = 0.02, .learning_rate_decay = 0.01, .initial_accumulator = 0.125};
  const RmsPropOptions centered{
      .learning_rate = 0.01, .alpha = 0.9, .epsilon = 0.01, .momentum = 0.8, .centered = true};
  const RmsPropOptions rmsprop_replayed{.learning_rate = 0.002, .alpha = 0.9, .weight_decay = 0.1};
  const auto warmup = Schedule::linear_warmup({.steps = 8}).then(Schedule::cosine({.steps = 40}));
  std::vector<CompatCase> cases;
  for (CompatCase& item : std::vector<CompatCase>{
           {"sgd_momentum", {momentum}, 1, true},
           // This file contains a format version. The other files are older.
           {"sgd_momentum_format_1", {momentum}},
           {"sgd_dampening", {dampening}},
           {"sgd_decay", {SgdOptions{.learning_rate = 0.05, .weight_decay = 0.1}}, 0},
           {"adam", {adam}},
           {"adam_amsgrad", {AdamOptions{.learning_rate = 0.01, .amsgrad = true}}, 3, true},
           {"adam_replayed", {AdamOptions{.learning_rate = 0.002, .weight_decay = 0.1}}, 2},
           {"adagrad", {adagrad}},
           {"adagrad_replayed", {AdagradOptions{.learning_rate = 0.002, .weight_decay = 0.1}}, 1},
           {"rmsprop_centered", {centered}, 3},
           {"rmsprop_replayed", {rmsprop_replayed}},
           {"sgd_touched_only", {sgd_touched}},
           {"adam_touched_only", {adam_touched}, 2},
           {"adamw_schedule", {adamw}, 2, false, warmup},
           {"sgd_schedule", {momentum}, {}, false, Schedule::one_cycle({.steps = 50})},
           {.name = "adamw_tied", .optimizers = {adamw}, .tied = true},
           // Saved three steps into the turn of the second optimizer.
           {.name = "two_in_turn", .optimizers = {momentum, adam}, .saved = 31},
           // Has 1 MiB of values, so that rows of zeros are not saved.
           {.name = "adamw_large",
           .optimizers = {adamw},
           .shape = {2048, 128},
           .starts_at_zero = true},
           // Defers hundreds of different steps.
           {.name = "sgd_long_history",
           .optimizers = {SgdOptions{.learning_rate = 0.05, .momentum = 0.9}},
           .schedule = Schedule::cosine({.steps = 1000}),
           .saved = 600,
           .end = 612}}) {
    cases.push_back(item);
    if (!item.slots_in_file) continue;
    item.name += "_in_file";
    cases.push_back(item);
  }
  // In double, only some cases of each kind run, because all files would take several hundred
  // kilobytes.
  const std::set<std::string> in_double{"sgd_momentum",     "sgd_momentum_in_file",
                                        "adam_amsgrad",     "adagrad",
                                        "rmsprop_centered", "rmsprop_centered_in_file",
                                        "adamw_schedule",   "adamw_schedule_in_file",
                                        "adamw_tied",       "two_in_turn"};
  if (sizeof(real) != 4)
    std::erase_if(cases, [&](const CompatCase& item) { return !in_double.contains(item.name); });
  return cases;
}

class CompatCheckpoints : public ::testing::TestWithParam<CompatCase> {
 protected:
  // Opens a copy, because opening a table file undoes steps that were not saved.
  std::unique_ptr<TableFile> open_copy_of_table() const {
    if (!GetParam().in_file()) return nullptr;
    const std::string name = GetParam().path("table").filename();
    for (const auto& entry : std::filesystem::directory_iterator(kCompatFiles)) {
      if (!entry.path().filename().string().starts_with(name)) continue;
      const std::filesystem::path copy = folder_ / entry.path().filename();
      std::filesystem::copy_file(entry.path(), copy);
      std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
    }
    return std::make_unique<TableFile>(folder_ / name);
  }

  // Compares with a tolerance, because another machine may fuse multiplications and additions, or
  // sum in another order. Each rounding of a step then changes a value by up to half a unit in the
  // last place (ulp). A step has a dozen roundings, together up to 6 ulps of values near 1. A
  // momentum of up to 5 has 3 more roundings, together up to 8 ulps. Over the following steps, half
  // of this error moves the value by 4 ulps, because 0.05 / (1 − 0.9) is 1/2. So 16 ulps for each
  // step are enough, including the deferred steps that are applied after loading.
  static void expect_values(const StateDict& got, const StateDict& expected, int steps) {
    for (const std::string& name : got.names()) {
      const auto& tensor = std::get<Tensor>(got.at(name));
      double largest = 1;
      for (const real value : tensor) largest = std::max(largest, std::abs(double{value}));
      expect_near(tensor, expected.tensor(name, tensor.shape()), 16 * steps * kEpsilon * largest,
                  name);
    }
  }

  TemporaryFolder folder_;
};

TEST_P(CompatCheckpoints, LoadAndContinueAsBefore) {
  const CompatCase& item = GetParam();
  const std::filesystem::path path = item.path("safetensors");
  if (std::getenv("ROWGRAD_WRITE_COMPAT") != nullptr && !std::filesystem::exists(path)) write(item);
  const StateDict all = read_safetensors(path);
  const auto file = open_copy_of_table();
  CompatTraining training(item, file.get());
  training.load(all);
  // The values of a table in memory are saved up to date. For a table in a file, deferred steps are
  // applied when the values are read.
  expect_values(training.values(), all.part("now"), file ? item.end : 0);
  training.train(item.saved, item.end);
  expect_values(training.values(), all.part("later"), item.end);
}

INSTANTIATE_TEST_SUITE_P(All, CompatCheckpoints, ::testing::ValuesIn(compat_cases()),
                         [](const auto& item) { return item.param.name; });

}  // namespace
