// Tests that deprecated names of version 0.2.0 still compile.
#include "tests/test.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

TEST(FormerNames, MeanTheirSuccessors) {
  static_assert(std::is_same_v<Checkpoint, StateDict>);
  static_assert(std::is_same_v<Part<Linear>, Submodule<Linear>>);
  static_assert(std::is_same_v<LookBack, ConcatPrevious>);
  static_assert(std::is_same_v<TextReader, IncrementalDecoder>);
  static_assert(std::is_same_v<TextSoFar, DecodeContext>);
  static_assert(std::is_same_v<TrainingParts, TrainingRunOptions>);
  static_assert(std::is_same_v<EvaluationParts, PeriodicEvaluation>);
  static_assert(Tape::gradient_mode == Tape::kGradient && Tape::inference == Tape::kInference);

  Tape tape(Tape::inference);
  const Variable x = tape.constant(irregular({2, 3}));
  EXPECT_EQ(look_back(x, 2).value(), causal_unfold(x, 2).value());
  Random random(1);
  EXPECT_EQ(draw_token(std::array<real, 2>{-INFINITY, 0}, 1, 0, random), 1U);
  NextTokenModel model({.vocabulary = 5, .context = 3, .width = 2}, random);
  const Ids inputs = ids({1, 3}, {0, 4, 2});
  EXPECT_EQ(model.before_head(tape, inputs).value(), model.hidden_states(tape, inputs).value());
  Checkpoint state;
  state.put("name", "a string");
  EXPECT_EQ(state.text("name"), "a string");
}

}  // namespace

#pragma GCC diagnostic pop
