#include "tests/test.hpp"

namespace {

// --- Values -------------------------------------------------------------------------------------

TEST(Tape, KeepsReferencesValidAndCopiesNoParameters) {
  Parameter weight("weight", tensor({2}, {1, 2}));
  Tape tape;
  const Variable first = tape.constant(tensor({2}, {1, 2}));
  const Tensor* address = &first.value();
  EXPECT_EQ(&tape.parameter(weight).value(), &weight.value());
  for (int i = 0; i < 1000; ++i) tape.constant(scalar(0));
  EXPECT_EQ(&first.value(), address);
  EXPECT_EQ(first.value(), tensor({2}, {1, 2}));
  EXPECT_EQ(tape.size(), 1002U);
}

TEST(Tape, DecidesWhichVariablesNeedAGradient) {
  Parameter trained("trained", scalar(3)), frozen("frozen", scalar(1));
  frozen.set_trainable(false);
  for (const bool inference : {false, true}) {
    Tape tape(inference ? Tape::kInference : Tape::kGradient);
    EXPECT_EQ(tape.is_inference(), inference);
    const Variable constant = tape.constant(scalar(1)), input = tape.input(scalar(2));
    const Variable weight = tape.parameter(trained), product = input * weight;
    EXPECT_EQ(product.item(), 6);
    for (const Variable& none :
         {constant, tape.parameter(frozen), constant * constant, detach(input)})
      EXPECT_FALSE(none.needs_gradient());
    for (const Variable& some : {input, weight, constant * input, product})
      EXPECT_EQ(some.needs_gradient(), !inference);
    if (!inference) continue;
    EXPECT_ERROR(std::logic_error, "Tape::backward: the tape is an inference tape",
                 tape.backward(product));
  }
}

TEST(Variable, ReturnsItsOnlyElement) {
  Tape tape;
  EXPECT_EQ(tape.constant(scalar(4)).item(), 4);
  EXPECT_EQ(tape.constant(tensor({1, 1}, {5})).item(), 5);
  EXPECT_INVALID("Variable::item: the value has shape [2, 3], expected a single element",
                 tape.constant(zeros({2, 3})).item());
  EXPECT_THROW(tape.constant(zeros({0})).item(), std::invalid_argument);
}

// --- Gradients ----------------------------------------------------------------------------------

TEST(Backward, AcceptsSingleElementLossesOfAnyRank) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}})
    for (const bool is_input : {true, false}) {
      Tape tape;
      const Variable x = tape.input(full(shape, 3));
      tape.backward(is_input ? x : x * x);
      EXPECT_EQ(tape.gradient(x).dense(), full(shape, is_input ? 1 : 6));
    }
  Parameter weight("weight", scalar(3));
  Tape tape;
  tape.backward(tape.parameter(weight));
  EXPECT_EQ(weight.gradient().dense(), scalar(1));
}

TEST(Backward, LeavesTheUpstreamGradientUnchanged) {
  const Tensor given = tensor({2}, {7, 8});
  Tape tape;
  const Variable x = tape.input(full({2}, 1));
  const Variable y = exp(x);  // the rule of exp reuses the memory of the gradient
  EXPECT_INVALID("Tape::backward: the gradient has shape [2, 2], expected [2]",
                 tape.backward(y, zeros({2, 2})));
  tape.backward(y, given);
  EXPECT_EQ(tape.gradient(x).dense(), Tensor(given * y.value()));
  EXPECT_EQ(given, tensor({2}, {7, 8}));
}

TEST(Backward, SumsGradientsOverUsesAndTapes) {
  Parameter weight("weight", scalar(3));
  for (int pass = 1; pass <= 2; ++pass) {
    Tape tape;
    const Variable x = tape.input(scalar(3)), square = x * x;
    const Variable here = tape.parameter(weight), there = tape.parameter(weight);
    const Variable loss = square * square + x + x + here * there * real{5};  // x⁴ + 2x + 5w²
    if (pass == 1) weight.zero_gradient();  // does not count as a change of the value
    weight.add_gradient(scalar(0));
    tape.backward(loss);
    EXPECT_EQ(tape.gradient(x).dense(), scalar(4 * 27 + 2));
    EXPECT_EQ(weight.gradient().dense(), scalar(static_cast<real>(30 * pass)));
  }
}

TEST(Backward, GivesNoGradientToUnusedParameters) {
  Parameter used("used", scalar(2)), unused("unused", scalar(2)), later("later", scalar(2));
  Tape tape;
  const Variable elsewhere = tape.input(scalar(1));
  tape.parameter(unused);
  const Variable dead_end = exp(elsewhere);
  EXPECT_TRUE(dead_end.needs_gradient());
  const Variable loss = tape.parameter(used) * real{3};
  const Variable after = loss * tape.parameter(later);
  later.mutable_values()[0] = 9;  // does not affect the loss
  tape.backward(loss);
  EXPECT_EQ(used.gradient().dense(), scalar(3));
  EXPECT_TRUE(tape.gradient(elsewhere).is_none());
  EXPECT_TRUE(unused.gradient().is_none());
  EXPECT_TRUE(later.gradient().is_none());
  EXPECT_EQ(after.item(), 12);
}

TEST(Backward, SkipsRulesWhoseGradientIsNotNeededOrNone) {
  Parameter frozen("frozen", tensor({2}, {3, 4})), trained("trained", tensor({2}, {5, 6}));
  frozen.set_trainable(false);
  Tape tape;
  bool ran = false;
  const auto noted = [&](const Variable& x) {
    return record("noted", {x}, x.read(), [&](Backward& node) {
      ran = true;
      node.slot(0).take(node.gradient());
    });
  };
  const Variable weight = tape.parameter(trained);
  const Variable step =
      record("step", {noted(weight), tape.constant(zeros({2}))}, zeros({2}), [](Backward& node) {
        node.slot(0).take({});
        node.slot(1).take(zeros({7}));  // ignored, as a constant needs no gradient
      });
  tape.backward(sum(weight * noted(tape.parameter(frozen)) + step));
  EXPECT_FALSE(ran);
  EXPECT_TRUE(frozen.gradient().is_none());
  EXPECT_EQ(trained.gradient().dense(), tensor({2}, {3, 4}));
}

TEST(Backward, AccumulatesGradientsInPlace) {
  Parameter table("table", tensor({2, 1}, {2, 3}));
  Tape tape;
  const Variable a = tape.input(full({2}, 2)), constant = tape.constant(full({2}, 1));
  const Variable rows = tape.parameter(table);
  std::vector<bool> added;
  const auto tripled = [&] {
    return record("triple", {a, rows, constant}, full({2}, 6), [&](Backward& node) {
      for (const std::size_t i : {0, 1, 2})
        if (GradientSlot slot = node.slot(i)) {
          added.push_back(slot.adds());
          for (std::size_t k = 0; k < 2; ++k)
            slot.data()[k] = (slot.adds() ? slot.data()[k] : 0) + 3 * node.gradient().data()[k];
        }
    });
  };
  // The table gets a row gradient first, so its first dense gradient is not added in place.
  tape.backward(sum(tripled() + tripled()) + sum(embedding(rows, ids({1}, {1}))));
  EXPECT_EQ(added, (std::vector{false, false, true, true}));
  EXPECT_EQ(tape.gradient(a).dense(), full({2}, 6));
  EXPECT_EQ(table.gradient().dense(), tensor({2, 1}, {6, 7}));
}

TEST(Backward, EvaluatesExpressionsOnlyIfNeeded) {
  Tape tape;
  const Variable x = tape.input(tensor({2}, {1, 2})), fixed = tape.constant(tensor({2}, {3, 4}));
  const auto product = [&] {
    return record("product", {x, fixed}, x.read() * fixed.read(), [](Backward& node) {
      node.slot(0).take(node.gradient() * node.input(1));
      node.slot(1).take(zeros({7}) + zeros({7}));  // not evaluated, as a constant needs no gradient
    });
  };
  tape.backward(sum(product() + product()));
  EXPECT_EQ(tape.gradient(x).dense(), tensor({2}, {6, 8}));
}

TEST(Backward, AccumulatesInPlaceIfTwoInputsAreOneVariable) {
  for (const bool is_used_twice : {false, true}) {
    Tape tape;
    const Variable x = tape.input(full({2}, 5));
    const Variable doubled = record("double", {x, x}, real{2} * x.read(), [](Backward& node) {
      GradientSlot a = node.slot(0), b = node.slot(1);
      for (GradientSlot* slot : {&a, &b}) {
        real* const to = slot->data();
        for (std::size_t k = 0; k < 2; ++k)
          to[k] = (slot->adds() ? to[k] : 0) + node.gradient().data()[k];
      }
    });
    tape.backward(sum(is_used_twice ? doubled + x : doubled));
    EXPECT_EQ(tape.gradient(x).dense(), full({2}, is_used_twice ? 3 : 2));
  }
}

TEST(Backward, KeepsRowGradientsOfTablesThatAreOnlyLookedUp) {
  Parameter table("table", tensor({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  Parameter doubled("doubled", table.value());
  Tape tape;
  tape.backward(sum(embedding(tape.parameter(table), ids({2}, {3, 0}))) +
                sum(embedding(tape.parameter(table), ids({2}, {2, 3}))) +
                sum(embedding(tape.parameter(doubled) * real{2}, ids({3}, {1, 3, 1}))));
  EXPECT_EQ(table.gradient().rows().indices(), (Ids32{0, 2, 3}));
  EXPECT_EQ(table.gradient().rows().values(), tensor({3, 2}, {1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(doubled.gradient().dense(), tensor({4, 2}, {0, 0, 4, 4, 0, 0, 2, 2}));
}

// Records an identity op whose backward rule appends `name` to `events`.
Variable noted(const Variable& x, std::vector<std::string>& events, const char* name) {
  return record("noted", {x}, x.read(), [&events, name](Backward& node) {
    events.emplace_back(name);
    node.slot(0).take(node.take_gradient());
  });
}

TEST(GradientSink, ReceivesEachGradientBeforeEarlierNodesRun) {
  Parameter first("first", scalar(2));
  Parameter second("second", scalar(3));
  Parameter unused("unused", scalar(5));
  std::vector<std::string> events;
  Tape tape;
  const Variable x = noted(tape.parameter(first) * real{4}, events, "rule of the first");
  tape.parameter(unused);
  const Variable y = noted(x * tape.parameter(second), events, "rule of the second");
  tape.backward(y, scalar(1),
                {.keep_values = false, .sink = [&](Parameter& parameter, Gradient gradient) {
                   events.push_back(parameter.name());
                   EXPECT_EQ(gradient.dense(), scalar(&parameter == &first ? 12 : 8));
                 }});
  EXPECT_EQ(events, (std::vector<std::string>{"rule of the second", "second", "rule of the first",
                                              "first"}));
  EXPECT_TRUE(first.gradient().is_none());  // only the sink has the gradient
}

TEST(GradientSink, ReceivesTheSumOverAllUses) {
  // The table is looked up, and is also the weight of two heads. The sum has the same bits as
  // without a sink.
  Parameter table("table", irregular({5, 5}, 1));
  Parameter between("between", irregular({5, 5}, 2));
  const auto loss = [&](Tape& tape) {
    const Variable hidden = embedding(tape.parameter(table), ids({3}, {1, 4, 1}));
    const Variable inner = linear(hidden, tape.parameter(between));
    return sum(linear(linear(inner, tape.parameter(table)), tape.parameter(table)));
  };
  Tape plain;
  plain.backward(loss(plain));

  Tape tape;
  const Variable y = loss(tape);
  std::vector<const Parameter*> order;
  tape.backward(y, scalar(1),
                {.keep_values = false, .sink = [&](Parameter& parameter, Gradient gradient) {
                   order.push_back(&parameter);
                   EXPECT_EQ(gradient.dense(), parameter.gradient().dense()) << parameter.name();
                 }});
  EXPECT_EQ(order, (std::vector<const Parameter*>{&between, &table}));
}

TEST(Backward, WalksTenThousandOpsWithoutRecursion) {
  constexpr int kOps = 10000;
  Parameter weight("weight", scalar(1));
  {
    Tape tape;
    Variable x = tape.parameter(weight);
    for (int i = 0; i < kOps; ++i) x = x + real{1};
    EXPECT_EQ(x.item(), 1 + kOps);
    tape.backward(x);
  }  // destroying the tape must not recurse either
  EXPECT_EQ(weight.gradient().dense(), scalar(1));
}

TEST(Tape, ReleasesValuesInBackward) {
  Parameter weight("weight", tensor({2}, {3, 4}));
  Tape tape;
  const Variable x = tape.parameter(weight);
  const Variable square = x * x;
  const Variable constant = tape.constant(tensor({2}, {1, 2}));
  const Variable loss = sum(square * constant);
  tape.backward(loss, {.keep_values = false});
  EXPECT_EQ(weight.gradient().dense(), tensor({2}, {6, 16}));
  EXPECT_EQ(loss.item(), 41);
  EXPECT_EQ(constant.value()(1), 2);
  EXPECT_EQ(square.shape(), Shape({2}));
  EXPECT_ERROR(std::logic_error, "multiply: backward() has released this value (see keep_values)",
               square.value());
  EXPECT_HAS(tape.to_dot(), "[2]");
}

TEST(Tape, IsDestroyedWithoutAllocating) {
  std::vector<std::unique_ptr<Tape>> tapes;
  for (int i = 0; i < 100; ++i) tapes.push_back(std::make_unique<Tape>());
  const FailingAllocations failing(1);
  tapes.clear();
  EXPECT_FALSE(failing.any_failed());
}

}  // namespace
