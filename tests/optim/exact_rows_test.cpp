// Compares row gradients with the rules themselves. Random programs of steps, changes and saves run
// in several modes. The values must be close to the results of the same steps in long double, and
// all modes with row gradients must have the same bits.

#include "tests/optim/optimizers.hpp"

namespace {

using Exact = long double;

// --- The rules ----------------------------------------------------------------------------------

struct Value {
  Exact w = 0, gradient = 0;
  std::array<Exact, 3> states{};
};

// Returns the gradient with weight decay.
Exact decayed(const Value& value, bool maximize, Exact decay) {
  const Exact gradient = maximize ? -value.gradient : value.gradient;
  // Without decay, a NaN value must not spread to the state.
  return decay == 0 ? gradient : gradient + decay * value.w;
}

void update(const SgdOptions& options, const StepNumber& step, std::span<Value> values) {
  for (Value& value : values) {
    Exact& velocity = value.states[0];
    Exact d = decayed(value, options.maximize, options.weight_decay);
    if (options.momentum != 0) {
      velocity = step.is_first_use ? d : options.momentum * velocity + (1 - options.dampening) * d;
      d = options.nesterov ? d + options.momentum * velocity : velocity;
    }
    value.w -= options.learning_rate * d;
  }
}

template <bool kDecoupled>
void update(const AdamOptionsOf<kDecoupled>& options, const StepNumber& step,
            std::span<Value> values) {
  const auto t = static_cast<Exact>(step.step);
  const Exact rate = options.learning_rate / (1 - std::pow(Exact{options.beta1}, t));
  const Exact correction = 1 - std::pow(Exact{options.beta2}, t);
  for (Value& value : values) {
    auto& [mean, square, largest] = value.states;
    const Exact d = decayed(value, options.maximize, kDecoupled ? 0 : options.weight_decay);
    if (kDecoupled) value.w *= 1 - options.learning_rate * options.weight_decay;
    mean = options.beta1 * mean + (1 - options.beta1) * d;
    square = options.beta2 * square + (1 - options.beta2) * d * d;
    if (options.amsgrad) largest = std::max(largest, square);
    const Exact divisor = options.amsgrad ? largest : square;
    value.w -= rate * mean / (std::sqrt(divisor / correction) + options.epsilon);
  }
}

void update(const AdagradOptions& options, const StepNumber& step, std::span<Value> values) {
  const Exact rate =
      options.learning_rate / (1 + static_cast<Exact>(step.step - 1) * options.learning_rate_decay);
  for (Value& value : values) {
    Exact& sum = value.states[0];
    if (step.is_first_use) sum = options.initial_accumulator;
    const Exact d = decayed(value, options.maximize, options.weight_decay);
    sum += d * d;
    value.w -= rate * d / (std::sqrt(sum) + options.epsilon);
  }
}

void update(const RmsPropOptions& options, const StepNumber&, std::span<Value> values) {
  for (Value& value : values) {
    auto& [square, velocity, mean] = value.states;
    const Exact d = decayed(value, options.maximize, options.weight_decay);
    square = options.alpha * square + (1 - options.alpha) * d * d;
    if (options.centered) mean = options.alpha * mean + (1 - options.alpha) * d;
    const Exact spread = options.centered ? std::max<Exact>(square - mean * mean, 0) : square;
    const Exact quotient = d / (std::sqrt(spread) + options.epsilon);
    if (options.momentum != 0) velocity = options.momentum * velocity + quotient;
    value.w -= options.learning_rate * (options.momentum != 0 ? velocity : quotient);
  }
}

// --- Subjects that run a program ----------------------------------------------------------------

enum class Given { kRows, kLookedUp, kClipped, kFrozen, kDense };  // gradient of a step

constexpr double kMaxNorm = 0.5;  // limit of the norm for kClipped

bool is_exact(const AnyOptions& options) {
  return std::visit([](const auto& each) { return each.rows == RowUpdates::kExact; }, options);
}

// A table with two optimizers, of which one is in use.
class Subject {
 public:
  Subject(const AnyOptions& options, Shape shape)
      : options_{options, kAdam}, shape_(std::move(shape)) {}

  const AnyOptions& options() const { return options_[used_]; }
  void set_options(const AnyOptions& options) { options_[used_] = options; }
  void use_the_other() { used_ = 1 - used_; }

 protected:
  std::array<AnyOptions, 2> options_;
  std::size_t used_ = 0;
  const Shape shape_;
};

// The reference, in long double: every step visits every row.
class Naive : public Subject {
 public:
  Naive(const AnyOptions& options, const Tensor& start) : Subject(options, start.shape()) {
    for (auto& optimizer : now_.optimizers) optimizer.values.resize(start.size());
    now_.w.assign(start.begin(), start.end());
    save();
  }

  void step(const RowGradient& gradient, Given given) {
    if (given == Given::kFrozen) return;
    Exact square = 0;
    for (const real value : gradient.values()) square += Exact{value} * value;
    const Exact most = given == Given::kClipped ? kMaxNorm / (std::sqrt(square) + 1e-6) : 1;
    const Exact factor = std::min<Exact>(1, most);
    const bool all = given == Given::kDense || is_exact(options());
    const auto* sgd = std::get_if<SgdOptions>(&options());
    State::Optimizer& optimizer = now_.optimizers[used_];
    StepNumber step{.step = ++optimizer.steps, .is_first_use = false};
    if (sgd == nullptr || sgd->momentum != 0)
      step.is_first_use = !std::exchange(optimizer.has_state, true);
    const std::size_t width = shape_[1];
    std::size_t next = 0;  // index of the gradient's next row
    for (std::size_t row = 0; row < shape_[0]; ++row) {
      const bool given_here =
          next < gradient.size() && gradient.indices()[next] == static_cast<std::int32_t>(row);
      if (!given_here && !all) continue;
      const std::span<Value> values(&optimizer.values[row * width], width);
      for (std::size_t i = 0; i < width; ++i) {
        values[i].w = now_.w[row * width + i];
        values[i].gradient = given_here ? factor * gradient.row(next)[i] : 0;
      }
      std::visit([&](const auto& each) { update(each, step, values); }, options());
      for (std::size_t i = 0; i < width; ++i) now_.w[row * width + i] = values[i].w;
      if (given_here) ++next;
    }
  }
  void reset_optimizer() {  // as if the optimizer were created now
    now_.optimizers[used_] = {.values = std::vector<Value>(now_.w.size())};
  }
  void assign(const Ids32& ids, const Tensor& values) {
    for (std::size_t i = 0; i < values.size(); ++i) now_.w[offset_of(ids, i)] = values.data()[i];
  }
  void save() { saved_ = now_; }
  void restore(bool /*anew*/) { now_ = saved_; }
  Tensor rows(const Ids32& ids) const {
    Tensor result = empty({ids.size(), shape_[1]});
    for (std::size_t i = 0; i < result.size(); ++i)
      result.data()[i] = static_cast<real>(now_.w[offset_of(ids, i)]);
    return result;
  }

 private:
  // Returns the offset of value i of these rows.
  std::size_t offset_of(const Ids32& ids, std::size_t i) const {
    return static_cast<std::size_t>(ids[i / shape_[1]]) * shape_[1] + i % shape_[1];
  }

  struct State {
    struct Optimizer {
      std::vector<Value> values = {};
      std::uint64_t steps = 0;
      bool has_state = false;  // true once a step has used the state
    };
    std::vector<Exact> w;
    std::array<Optimizer, 2> optimizers;
  };
  State now_, saved_;
};

struct Mode {
  const char* name;
  bool dense = false;    // all gradients are dense
  bool watched = false;  // the table is read after each action
  bool resumed = false;  // after each action, the state is saved and loaded into new objects
  bool in_file = false;  // the table is in a file
  int threads = 1;
};

// The library's table and optimizers.
class Library : public Subject {
 public:
  Library(const AnyOptions& options, const Mode& run_mode, const Tensor& start)
      : Subject(options, start.shape()), mode(run_mode) {
    make();
    if (!mode.in_file) table_->assign(start);
    save();
  }

  void set_options(const AnyOptions& options) {
    Subject::set_options(options);
    rowgrad::testing::set_options(*optimizers_[used_], options);
  }
  void step(const RowGradient& gradient, Given given) {
    const Ids ids = to_ids(gradient.indices());
    table_->zero_gradient();
    if (mode.dense || given == Given::kDense) {
      table_->add_gradient(gradient.to_dense());
    } else if (given == Given::kLookedUp) {  // two lookups, each with half of the gradient
      Tape tape;
      const Variable table = tape.parameter(*table_), half = tape.constant(gradient.values() / 2);
      tape.backward(sum(embedding(table, ids) * half) + sum(half * embedding(table, ids)));
    } else {
      table_->add_gradient(gradient);
    }
    table_->set_trainable(given != Given::kFrozen);
    if (given == Given::kClipped) clip_grad_norm(optimizers_[used_]->parameters(), kMaxNorm);
    optimizers_[used_]->step();
    table_->set_trainable(true);
  }
  void reset_optimizer() {
    optimizers_[used_].reset();
    optimizers_[used_] = make_optimizer(options(), {table_.get()});
  }
  void assign(const Ids32& ids, const Tensor& values) {
    if (ids.size() == shape_[0] && !mode.in_file)
      table_->assign(values);
    else
      table_->assign_rows(ids, values);
  }
  void save() { saved_ = state(); }
  void restore(bool anew) {                  // loads the saved state; `anew`: into new objects
    if (anew && file_) file_->checkpoint();  // so that load() restores the previous checkpoint
    if (anew) make();
    load(saved_);
    save();
  }
  Tensor rows(const Ids32& ids) const { return table_->rows(ids); }

  void resume() {
    const StateDict all = state();
    make();
    load(all);
  }

  // Reads the rows and, for some seeds, the whole table and the state. Reading must not change
  // anything.
  void read_all(std::uint32_t seed) const {
    const Ids32 ids = all_rows(shape_[0]);
    const Tensor expected = rows(ids);
    const auto expect_rows = [&](const char* what, const Tensor& found) {
      check_state(std::memcmp(found.data(), expected.data(), found.size() * sizeof(real)) == 0,
                  what, " has other bits than rows()");
    };
    if (seed % 3 != 0) return;
    Tape tape(Tape::kInference);
    const Variable table = tape.parameter(*table_);
    expect_rows("embedding()", embedding(table, to_ids(ids)).value());
    if (mode.in_file) return;
    optimizers_[used_]->state_dict();
    expect_rows("a variable", table.value());
    expect_rows("value()", table_->value());
  }

  // Returns the bits of the rows and, unless the table is in a file, of the table and the optimizer
  // state after all deferred steps were applied.
  std::string bits() {
    StateDict all;
    all.put("rows", rows(all_rows(shape_[0])));
    if (mode.in_file) return bits_of(all);
    table_->mutable_values();
    all.put("updated", state());
    return bits_of(all);
  }

  const Mode mode;

 private:
  // Creates new objects. Opening a table file restores its last checkpoint.
  void make() {
    if (std::exchange(table_first_, !table_first_)) table_.reset();
    for (auto& optimizer : optimizers_) optimizer.reset();
    table_.reset();
    if (mode.in_file) {
      file_.reset();
      const auto path = folder_ / "table";
      file_ = std::filesystem::exists(path)
                  ? std::make_unique<TableFile>(path)
                  : std::make_unique<TableFile>(
                        path, TableFileOptions{.rows = shape_[0], .width = shape_[1], .slots = 3});
      table_ = std::make_unique<Parameter>("table", file_rows(*file_));
    } else {
      table_ = std::make_unique<Parameter>("table", zeros(shape_));
    }
    for (std::size_t i = 0; i < 2; ++i)
      optimizers_[i] = make_optimizer(options_[i], {table_.get()});
  }
  StateDict state() {
    if (file_) file_->checkpoint();
    StateDict all;
    all.put("table", table_->saved());
    for (std::size_t i = 0; i < 2; ++i) all.put(concat(i), optimizers_[i]->state_dict());
    return all;
  }
  void load(const StateDict& all) {
    table_->load(all, "table");
    for (std::size_t i = 0; i < 2; ++i) optimizers_[i]->load_state_dict(all.part(concat(i)));
  }

  bool table_first_ = false;  // true if make() destroys the table before its optimizers
  StateDict saved_;
  TemporaryFolder folder_;
  std::unique_ptr<TableFile> file_;
  std::unique_ptr<Parameter> table_;
  std::array<std::unique_ptr<Optimizer>, 2> optimizers_;
};

// --- Programs -----------------------------------------------------------------------------------

enum Kind : std::uint8_t {
  kSteps,
  kStep,
  kDenseStep,
  kRest,    // many steps in which few rows have gradients
  kPoison,  // a NaN gradient
  kFrozenStep,
  kRate,
  kOptions,
  kOther,
  kResetOptimizer,
  kAssign,
  kSave,
  kRestore
};
constexpr std::array kKindNames{"kSteps",      "kStep", "kDenseStep", "kRest",  "kPoison",
                                "kFrozenStep", "kRate", "kOptions",   "kOther", "kResetOptimizer",
                                "kAssign",     "kSave", "kRestore"};

// An action depends only on its seed, so that earlier actions can be removed.
struct Action {
  Kind kind;
  std::uint32_t seed;
};

struct Program {
  std::size_t rows, width;
  bool in_file;  // true if the program also runs with the table in a file
  std::vector<Action> actions = {};
};

std::string printed(const Action& action) {
  return concat("{", kKindNames[action.kind], ", ", action.seed, "}");
}

std::string printed(const Program& program) {
  std::string text = concat("{", program.rows, ", ", program.width, ", ", program.in_file, ", {");
  for (const Action& action : program.actions) text += printed(action) + ", ";
  return text + "}}";
}

// Returns one of the values at random.
template <class T>
T any(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

void set_any(SgdOptions& options, std::mt19937& random) {
  options.momentum = any(random, {0.0, 0.5, 0.9});
  options.dampening = any(random, {0.0, 0.3});
  options.nesterov = options.momentum > 0 && options.dampening == 0 && any(random, {true, false});
}

template <bool kDecoupled>
void set_any(AdamOptionsOf<kDecoupled>& options, std::mt19937& random) {
  options.beta1 = any(random, {0.0, 0.3, 0.5, 0.9});
  options.beta2 = any(random, {0.5, 0.9, 0.999});
  options.epsilon = any(random, {1e-8, 1e-4});
  options.amsgrad = any(random, {true, false});
  // With only decay and a small epsilon, steps are ±learning_rate around zero. So two dense runs
  // that are one rounding apart when options change may end 1e-6 apart.
  if (!kDecoupled && options.weight_decay != 0) options.epsilon = 1e-2;
}

void set_any(AdagradOptions& options, std::mt19937& random) {
  options.learning_rate_decay = any(random, {0.0, 0.1});
  options.epsilon = any(random, {1e-10, 1e-4});
}

void set_any(RmsPropOptions& options, std::mt19937& random) {
  options.alpha = any(random, {0.5, 0.9, 0.99});
  options.momentum = any(random, {0.0, 0.5, 0.9});
  // With only decay, the standard deviation of a row would soon consist of rounding errors, and a
  // small epsilon would amplify them in values near 0.
  const bool decays = options.weight_decay != 0;
  options.epsilon = decays ? 1e-2 : any(random, {1e-3, 1e-2});
  options.centered = !decays && any(random, {true, false});
}

// Returns random options for the optimizer of `before`.
AnyOptions any_options(const AnyOptions& before, std::mt19937& random) {
  return std::visit(
      [&](auto options) -> AnyOptions {
        options = {};
        options.learning_rate = any(random, {0.001, 0.05, 0.1});
        options.weight_decay = any(random, {0.0, 0.0, 0.1});
        options.maximize = any(random, {true, false});
        set_any(options, random);
        return options;
      },
      before);
}

void apply(const Action& action, const Program& program, auto& subject) {
  std::mt19937 random(action.seed);
  const Shape shape{program.rows, program.width};
  const auto some_rows = [&](std::uint32_t percent) {
    Ids32 ids;
    for (std::size_t row = 0; row < program.rows; ++row)
      if (random() % 100 < percent) ids.push_back(static_cast<std::int32_t>(row));
    return ids;
  };
  const auto steps = [&](std::uint32_t count, std::uint32_t percent, Given given = Given::kRows) {
    for (std::uint32_t i = 0; i < count; ++i)
      subject.step(gradient(shape, some_rows(percent), static_cast<int>(random() % 1000)), given);
  };
  switch (action.kind) {
    case kSteps:
      return steps(1 + random() % 8, any(random, {0U, 5U, 15U, 40U, 100U}));
    case kStep:
      return steps(1, 50, any(random, {Given::kLookedUp, Given::kClipped}));
    case kDenseStep:
      return steps(1, any(random, {15U, 40U, 100U}), Given::kDense);
    case kRest:
      return steps(any(random, {20U, 100U, 200U, 700U}), any(random, {0U, 0U, 5U}));
    case kPoison: {
      RowGradient poison = gradient(shape, {static_cast<std::int32_t>(random() % program.rows)});
      Tensor values = poison.values();
      values.data()[random() % program.width] = NAN;
      return subject.step(RowGradient(shape, poison.indices(), values), Given::kRows);
    }
    case kFrozenStep:
      return subject.step(gradient(shape, {0}), Given::kFrozen);
    case kRate: {
      AnyOptions options = subject.options();
      std::visit([&](auto& each) { each.learning_rate = 0.001 * (1 + random() % 100); }, options);
      return subject.set_options(options);
    }
    case kOptions:
      return subject.set_options(any_options(subject.options(), random));
    case kOther:
      return subject.use_the_other();
    case kResetOptimizer:
      return subject.reset_optimizer();
    case kAssign: {
      const Ids32 ids = some_rows(any(random, {40U, 40U, 100U}));
      return subject.assign(
          ids, irregular({ids.size(), program.width}, static_cast<int>(random() % 1000)));
    }
    case kSave:
      return subject.save();
    case kRestore:
      return subject.restore(random() % 2 == 0);
  }
}

// Returns a random program, which depends only on the arguments.
Program random_program(std::uint32_t seed, bool in_file, bool options_change) {
  std::mt19937 random(seed);
  Program program{.rows = 1 + random() % 9, .width = 1 + random() % 11, .in_file = in_file};
  std::vector<Kind> kinds(20, kSteps);
  kinds.insert(kinds.end(),
               {kStep, kStep, kStep, kStep, kRate, kRate, kFrozenStep, kAssign, kSave, kRestore});
  if (!in_file)
    kinds.insert(kinds.end(), {kDenseStep, kDenseStep, kOther, kOther, kResetOptimizer, kAssign});
  if (options_change) kinds.insert(kinds.end(), 12, kOptions);
  if (options_change || random() % 4 == 0) kinds.push_back(kRest);
  if (random() % 8 == 0) {
    // If a value replaces NaN, Adagrad's dense steps and row steps may differ.
    std::erase(kinds, kAssign);
    kinds.push_back(kPoison);
  }
  for (int i = 0; i < 40; ++i) {
    const Kind kind = kinds[random() % kinds.size()];
    program.actions.push_back({kind, static_cast<std::uint32_t>(random() % 100'000)});
  }
  if (options_change) program.actions.front().kind = kOptions;
  return program;
}

// Returns the program without actions that are not needed for it to fail.
Program shrunk(Program program, const auto& fails) {
  std::vector<Action>& actions = program.actions;
  for (std::size_t chunk = actions.size() / 2; chunk > 0; chunk /= 2)
    for (std::size_t at = 0; at + chunk <= actions.size();) {
      Program less = program;
      const auto begin = less.actions.begin() + static_cast<std::ptrdiff_t>(at);
      less.actions.erase(begin, begin + static_cast<std::ptrdiff_t>(chunk));
      if (fails(less)) {
        program = less;
      } else {
        at += chunk;
      }
    }
  return program;
}

// --- Comparing ----------------------------------------------------------------------------------

// In double, the tolerance is 450,000 roundings of values near 1. In float, it is 17,000
// roundings, because the quotients of Adam and similar optimizers amplify the relative error of a
// root of differences a few hundred times.
constexpr double kTolerance = sizeof(real) == 8 ? 1e-10 : 2e-3;

void check_near(const Tensor& found, const Tensor& expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double a = found.data()[i], b = expected.data()[i];
    check_state(same(a, b) || (std::isfinite(b) &&
                               std::abs(a - b) <= kTolerance * std::max(1.0, std::abs(b))),
                "value ", i, " is ", a, ", expected ", b);
  }
}

// Runs a program in all modes. Returns a description of the first difference, or an empty string.
std::string difference(const AnyOptions& options, const Program& program) {
  std::vector<Mode> modes{{.name = "unwatched"}};
  const bool large = program.rows > 100;
  if (large) {
    modes.push_back({.name = "3 threads", .threads = 3});
  } else {
    modes.push_back({.name = "watched", .watched = true});
    modes.push_back({.name = "resumed", .resumed = true});
    if (is_exact(options)) modes.push_back({.name = "dense", .dense = true, .resumed = true});
    if (program.in_file) modes.push_back({.name = "in a file", .watched = true, .in_file = true});
  }
  std::string where;
  try {
    Tensor start = irregular({program.rows, program.width});
    std::vector<std::unique_ptr<Library>> subjects;
    if (program.in_file) {
      const Library file(options, {.name = "", .in_file = true}, start);
      start = file.rows(all_rows(program.rows));
    }
    for (const Mode& mode : modes)
      subjects.push_back(std::make_unique<Library>(options, mode, start));
    Naive naive(options, start);
    const Ids32 all = all_rows(program.rows);
    for (const Action& action : program.actions) {
      if (!large) apply(action, program, naive);
      for (const auto& subject : subjects) {
        const Mode& mode = subject->mode;
        where = concat(mode.name, ", at ", printed(action), ": ");
        const Threads limited(mode.threads);
        apply(action, program, *subject);
        if (mode.resumed) subject->resume();
        if (mode.watched) subject->read_all(action.seed);
        if (mode.watched || mode.dense) check_near(subject->rows(all), naive.rows(all));
      }
    }
    where = "at the end: ";
    const std::string bits = subjects.front()->bits();
    for (const auto& subject : subjects)
      check_state(subject->mode.dense || bits.starts_with(subject->bits()), subject->mode.name,
                  " has other bits than ", subjects.front()->mode.name);
  } catch (const std::exception& error) {
    return where + error.what();
  }
  return "";
}

// Expects no difference in any mode. If there is one, prints only the actions that cause it.
void expect_no_difference(const OptimizerCase& item, const Program& program) {
  if (difference(item.options, program).empty()) return;
  const Program less =
      shrunk(program, [&](const Program& each) { return !difference(item.options, each).empty(); });
  FAIL() << item.name << ", " << printed(less) << '\n' << difference(item.options, less);
}

// With AddressSanitizer, which is slow, only 1 / kShare of the programs run.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr std::uint32_t kShare = 4;
#else
constexpr std::uint32_t kShare = 1;
#endif

class ExactRows : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(ExactRows, HaveTheSameBitsInEveryMode) {
  // In a file, the initial value of sums must be 0.
  const bool fits_file = std::string(GetParam().name) != "adagrad_decay";
  for (std::uint32_t seed = 0; seed < 30 / kShare && !HasFailure(); ++seed) {
    const bool options_change = seed % 3 == 2;
    const bool in_file = fits_file && seed % 10 == 0 && !options_change;
    expect_no_difference(GetParam(), random_program(seed, in_file, options_change));
  }
}

TEST_P(ExactRows, AreIndependentOfTheThreadCount) {
  const std::vector<Action> actions{{kSteps, 1}, {kSteps, 2},  {kDenseStep, 3},
                                    {kSteps, 4}, {kAssign, 5}, {kStep, 6}};
  expect_no_difference(GetParam(), {700, 96, false, actions});
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ExactRows,
    ::testing::ValuesIn(std::vector<OptimizerCase>{
        {"sgd", SgdOptions{.learning_rate = 0.1}},
        {"sgd_decay", SgdOptions{.learning_rate = 0.1, .weight_decay = 0.05}},
        {"sgd_momentum", SgdOptions{.learning_rate = 0.1, .momentum = 0.9}},
        {"sgd_everything", SgdOptions{.learning_rate = 0.1,
                                      .momentum = 0.8,
                                      .dampening = 0.3,
                                      .weight_decay = 0.05,
                                      .maximize = true}},
        {"sgd_nesterov",
         SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
        {"sgd_touched_only", SgdOptions{.learning_rate = 0.1,
                                        .momentum = 0.9,
                                        .weight_decay = 0.1,
                                        .rows = RowUpdates::kTouchedOnly}},
        {"adam", AdamOptions{.learning_rate = 0.05}},
        {"adam_amsgrad", AdamOptions{.learning_rate = 0.05, .amsgrad = true}},
        {"adam_decay", AdamOptions{.learning_rate = 0.05, .weight_decay = 0.1}},
        {"adam_slow_fading", AdamOptions{.beta1 = 0.9, .beta2 = 0.7}},
        {"adam_without_fading", AdamOptions{.beta2 = -0.0}},
        {"adam_touched_only", AdamOptions{.learning_rate = 0.05, .rows = RowUpdates::kTouchedOnly}},
        {"adamw", AdamWOptions{.learning_rate = 0.05}},
        {"adamw_amsgrad",
         AdamWOptions{.learning_rate = 0.05, .weight_decay = 0.5, .amsgrad = true}},
        {"adagrad", AdagradOptions{.learning_rate = 0.1}},
        {"adagrad_decay", AdagradOptions{.learning_rate = 0.1,
                                         .learning_rate_decay = 0.1,
                                         .weight_decay = 0.1,
                                         .initial_accumulator = 0.1}},
        {"rmsprop", RmsPropOptions{}},
        {"rmsprop_momentum", RmsPropOptions{.momentum = 0.9}},
        {"rmsprop_centered", RmsPropOptions{.momentum = 0.5, .centered = true}},
        {"rmsprop_decay", RmsPropOptions{.weight_decay = 0.1}}}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
