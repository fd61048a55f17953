// Saving and loading of optimizers with stale rows: see support/resumable.hpp.

#include "tests/support/resumable.hpp"

#include "tests/optim/optimizers.hpp"

namespace {

// The training of a table with row gradients, a table with row and dense gradients, and a vector.
// Row 0 of the first table has no gradient (except in step `poisoned`), and row 1 has one only in
// early steps.
class RunningOptimizer : public RunningModel {
 public:
  // In step `poisoned`, the gradient in column 3 of rows 0 and 4 is NaN.
  RunningOptimizer(const AnyOptions& options, bool other, int poisoned)
      : model_(other ? 5 : 0),
        optimizer_(make_optimizer(options, model_.parameters())),
        poisoned_(poisoned) {}

  std::string step() override {
    const std::int32_t row = 2 + ++made_ % 10;
    optimizer_->zero_grad();
    if (made_ == poisoned_) {
      Tensor values = irregular({2, 9});
      values(0, 3) = values(1, 3) = NAN;
      model_.table.add_gradient(RowGradient({13, 9}, {0, 4}, values));
    } else {
      add_rows(model_.table, {made_ < 5 ? 1 : row, made_ < 5 ? row : 12});
    }
    if (made_ % 4 == 0)
      model_.mixed.add_gradient(irregular({9, 5}, made_));
    else
      add_rows(model_.mixed, {1, 2 + made_ % 6});
    model_.bias.add_gradient(irregular({3}, made_));
    optimizer_->step();
    if (made_ % 16 != 0) return "";
    const Tensor rows = model_.table.rows(std::array{2, 12});
    return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(real)};
  }

  void load(const StateDict& state) override {
    RunningModel::load(state);
    made_ = static_cast<int>(state.count("optimizer.bias.step"));
  }

 private:
  struct TwoTables : Layer {
    explicit TwoTables(int seed)
        : table(*this, "table", irregular({13, 9}, seed + 1)),
          mixed(*this, "mixed", irregular({9, 5}, seed + 2)),
          bias(*this, "bias", irregular({3}, seed + 3)),
          buffer(*this, "buffer", irregular({2}, seed + 4)) {}
    Parameter table, mixed, bias;
    Buffer buffer;
  };

  static void add_rows(Parameter& table, Ids32 rows) {
    if (rows[0] == rows[1]) rows.pop_back();
    table.add_gradient(gradient(table.shape(), rows, rows.front()));
  }

  Layer& model() override { return model_; }
  Optimizer& optimizer() override { return *optimizer_; }

  int made_ = 0;
  TwoTables model_;
  std::unique_ptr<Optimizer> optimizer_;
  int poisoned_;
};

struct ResumableOptimizer {
  const char* name;
  AnyOptions options;
  int poisoned = 0;                       // step with a NaN gradient; 0 for none
  const char* optional = "";              // slots that only some options need
  std::vector<std::size_t> failing = {};  // steps after which memory runs out
};

TEST(Optimizers, AreResumable) {
  const double rate = 0.01;
  for (const ResumableOptimizer& item : std::vector<ResumableOptimizer>{
           {"SGD", SgdOptions{.learning_rate = rate}},
           {"SGD with decay", SgdOptions{.learning_rate = rate, .weight_decay = 0.01}},
           {"SGD with momentum",
            SgdOptions{.learning_rate = rate, .momentum = 0.9, .weight_decay = 0.01}, 30,
            "momentum"},
           {"Adam", AdamOptions{.learning_rate = rate}, 30},
           {"Adam with decay", AdamOptions{.learning_rate = rate, .weight_decay = 0.1}},
           {"AdamW", AdamWOptions{.learning_rate = rate}, 30},
           {"AMSGrad",
            AdamWOptions{.learning_rate = rate, .amsgrad = true},
            0,
            "max_exp_avg_sq",
            {7}},
           {"Adagrad", AdagradOptions{.learning_rate = rate, .weight_decay = 0.01}},
           {"RMSprop", RmsPropOptions{.learning_rate = rate, .weight_decay = 0.01}},
           {"RMSprop with momentum",
            RmsPropOptions{.learning_rate = rate, .momentum = 0.9, .centered = true},
            30,
            "@(grad_avg|momentum)*",
            {0, 7}}}) {
    const auto make = [&item](bool other) {
      return std::make_unique<RunningOptimizer>(item.options, other, item.poisoned);
    };
    Resumable all{.name = item.name,
                  .make = make,
                  .steps = 390,
                  .stops = {0, 1, 3, 31, 150, 387},
                  .taken = {"NaN in !(*.rules)", "2^62 in optimizer.*.step"},
                  .failing = item.failing};
    if (*item.optional != '\0') all.taken.push_back(concat("no optimizer.*.", item.optional));
    expect_resumable(all);
  }
}

// If an option needs an additional slot, loading must not silently start the slot from zeros.
TEST(Optimizers, RejectStatesWithoutRequiredSlots) {
  struct Case {
    AnyOptions without, with;
    std::string optimizer, state;
  };
  for (const auto& [without, with, optimizer, state] : std::vector<Case>{
           {SgdOptions{}, SgdOptions{.momentum = 0.9}, "SGD", "momentum"},
           {AdamOptions{}, AdamOptions{.amsgrad = true}, "Adam", "max_exp_avg_sq"},
           {AdamWOptions{}, AdamWOptions{.amsgrad = true}, "AdamW", "max_exp_avg_sq"},
           {RmsPropOptions{}, RmsPropOptions{.momentum = 0.9}, "RMSprop", "momentum"},
           {RmsPropOptions{}, RmsPropOptions{.centered = true}, "RMSprop", "grad_avg"}})
    for (const bool dense : {false, true}) {
      SCOPED_TRACE(concat(optimizer, ' ', state, dense ? ", dense" : ""));
      Parameter table("table", irregular({6, 2})), other("table", irregular({6, 2}));
      const auto saved = make_optimizer(without, {&table});
      const auto loading = make_optimizer(with, {&other});
      const auto make_step = [&](Optimizer& of, Parameter& trained) {
        if (!dense) return step(of, trained, {1, 3});
        trained.zero_gradient();
        trained.add_gradient(irregular({6, 2}, 3));
        of.step();
      };
      make_step(*saved, table);
      const StateDict good = saved->state_dict();
      const std::string before = bits_of(loading->state_dict());
      const std::string message =
          concat(optimizer, "::load_state_dict: 'table.", state,
                 "' is missing, but the optimizer's options need it; create the optimizer with the "
                 "options "
                 "of the saved one, and change them after loading (set_options)");
      EXPECT_INVALID(message, loading->load_state_dict(good));
      EXPECT_INVALID(message, loading->check_state_dict(good));
      EXPECT_EQ(bits_of(loading->state_dict()), before);
      // Do as the message recommends.
      other.assign(table.copy());
      set_options(*loading, without);
      loading->load_state_dict(good);
      set_options(*loading, with);
      const StateDict changed = loading->state_dict();  // marks a slot that does not exist yet
      loading->load_state_dict(changed);
      make_step(*loading, other);
      set_options(*saved, with);
      make_step(*saved, table);
      EXPECT_EQ(table.copy(), other.copy());
    }
}

}  // namespace
