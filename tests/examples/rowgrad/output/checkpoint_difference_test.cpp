#include "tests/support/shell.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/output/checkpoint_difference.hpp>

namespace {

StateDict small_state() {
  StateDict state;
  state.put("table", Tensor{{1, 2}, {3, 4}, {5, 6}});
  state.put("rate", 0.1);
  state.put("steps", std::vector<std::int64_t>{1, 2});
  state.put("note", "a text");
  return state;
}

// Describes all differences, for example "table[1, 1]: 4 and 4.5, at most 1, in 2 of 3 rows".
std::string described(const StateDict& first, const StateDict& second) {
  std::string all;
  for (const CheckpointDifference& each : differences(first, second)) {
    using enum CheckpointDifference::Kind;
    const std::map<CheckpointDifference::Kind, std::string> kinds{
        {only_in_first, " only in first"},
        {only_in_second, " only in second"},
        {type_or_shape, " type or shape"},
        {text, " text"},
        {numbers, concat("[", each.row, ", ", each.column, "]: ", each.first, " and ", each.second,
                         ", at most ", each.largest_difference, ", in ", each.rows, " of ",
                         each.rows_in_all, " rows")}};
    all += (all.empty() ? "" : "; ") + each.name + kinds.at(each.kind);
  }
  return all;
}

TEST(Differences, CompareNamesTypesShapesAndBits) {
  const real nan = std::numeric_limits<real>::quiet_NaN();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(), kMax = ~kMin;
  using Value = StateDict::Value;
  const Tensor table{{1, 2}, {3, 4}, {5, 6}};
  for (const auto& [name, first, second, expected] :
       std::vector<std::tuple<std::string, Value, Value, std::string>>{
           {"table", table, table, ""},
           {"table", table, Tensor{{1, 2}, {3, 4.5}, {4, 6.25}},
            "table[1, 1]: 4 and 4.5, at most 1, in 2 of 3 rows"},
           {"table", Tensor{nan}, Tensor{nan}, ""},
           {"table", Tensor{0}, Tensor{-real{0}},
            "table[0, 0]: 0 and -0, at most 0, in 1 of 1 rows"},
           {"table", Tensor{1, nan, 7}, Tensor{1, 2, 3},
            "table[1, 0]: nan and 2, at most nan, in 2 of 3 rows"},
           {"rate", StateDict::Doubles{{}, {0.1}}, StateDict::Doubles{{}, {0.2}},
            "rate[0, 0]: 0.1 and 0.2, at most 0.1, in 1 of 1 rows"},
           {"steps", StateDict::Integers{{2}, {1, 2}}, StateDict::Integers{{2}, {1, 3}},
            "steps[1, 0]: 2 and 3, at most 1, in 1 of 2 rows"},
           // Numbers are shown with all digits.
           {"rate", StateDict::Doubles{{}, {0.1}}, StateDict::Doubles{{}, {0.1 + 0x1p-56}},
            "rate[0, 0]: 0.1 and 0.10000000000000002, at most 1.4e-17, in 1 of 1 rows"},
           {"steps", StateDict::Integers{{}, {(1LL << 53) + 1}},
            StateDict::Integers{{}, {1LL << 53}},
            "steps[0, 0]: 9007199254740993 and 9007199254740992, at most 1, in 1 of 1 rows"},
           {"steps", StateDict::Integers{{}, {kMin}}, StateDict::Integers{{}, {kMax}},
            "steps[0, 0]: -9223372036854775808 and 9223372036854775807, at most "
            "18446744073709551615, in 1 of 1 rows"},
           {"seed", StateDict::Integers{{}, {-1}}, StateDict::Integers{{}, {7}},
            "seed[0, 0]: 18446744073709551615 and 7, at most 8, in 1 of 1 rows"},
           {"note", "a text", "another", "note text"},
           {"table", table, Tensor{{1, 2, 3}, {4, 5, 6}}, "table type or shape"},
           {"table", table, "a text", "table type or shape"},
           {"table", table, Tensor(), "table type or shape"},
           {"table", empty({0, 2}), empty({0, 2}), ""},
           {"table", empty({2, 0}), empty({2, 0}), ""}})
    EXPECT_EQ(described(with(small_state(), name, first), with(small_state(), name, second)),
              expected);
  EXPECT_EQ(described(StateDict(), StateDict()), "");
  EXPECT_EQ(described(small_state(), with(without(small_state(), "rate"), "b", 1)),
            "b only in second; rate only in first");
}

// A model whose speed is measured in examples.
struct OfExamples : Model {
  explicit OfExamples(Random& random)
      : table(*this, "table", 4, 3, random), head(*this, "head", 3, 2, random) {}
  Variable loss(Tape& tape, const Batch& batch) override {
    return head.cross_entropy(table.forward(tape, batch.ids[0]), batch.ids[1]);
  }
  Submodule<Embedding> table;
  Submodule<Linear> head;
};

TEST(CompareRuns, ReadsRunsSavedByOtherPrograms) {
  const CommandFolder folder;
  for (const std::string prefix : {"", "run"}) {
    for (const char* file : {"first", "again", "other"}) {
      Random random(1);
      OfExamples model(random);
      SGD sgd(model.parameters(), {.learning_rate = *file == 'o' ? 0.2 : 0.1});
      DataLoader loader(TensorDataset({.ids = {ids({2}, {0, 1}), ids({2}, {0, 1})}}), {.batch = 2});
      TrainingRun run(
          {.model = model, .optimizer = sgd, .loader = loader, .random = random, .epochs = 2});
      run.train();
      StateDict all;
      if (prefix.empty())
        all = run.state_dict();
      else
        all.put(prefix, run.state_dict());
      write_safetensors(folder / file, all);
    }
    const Outcome equal = folder.shell("rowgrad compare first again");
    EXPECT_EQ(equal.status, 0);
    EXPECT_EQ(equal.output,
              "first: 2 steps\nagain: 2 steps\nLosses are equal up to step 2\nThe runs are "
              "equal.\n");
    const Outcome unequal = folder.shell("rowgrad compare first other");
    EXPECT_EQ(unequal.status, 1);
    EXPECT_HAS(unequal.output, "Losses first differ after step 2: training_loss of the epoch");
    EXPECT_HAS(unequal.output, concat(prefix, prefix.empty() ? "" : ".", "model.table.weight: "));
    for (const double zero : {0.0, -0.0}) {
      const StateDict again = read_safetensors(folder / "again");
      write_safetensors(
          folder / (std::signbit(zero) ? "below" : "above"),
          with(again, concat(prefix, prefix.empty() ? "" : ".", "history.training_loss"),
               std::vector<double>{zero, zero}));
    }
    EXPECT_HAS(folder.shell("rowgrad compare above below").output,
               "Losses first differ after step 1: training_loss of the epoch 0 and -0\n");
  }
}

}  // namespace
