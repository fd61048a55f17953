// Inspection of tapes: gradients of intermediate variables, lookups, names and the graph.

#include "tests/test.hpp"

namespace {

TEST(Tape, RetainsGradientsOfIntermediateVariables) {
  Parameter weight("weight", scalar(1));
  Tape tape;
  const Variable x = tape.input(tensor({2}, {1, 2}));
  const Variable y = x * x;
  const Variable z = y * real{3};
  const Variable loss = sum(z);
  for (const Variable& kept : {y, loss, x})
    tape.retain_gradient(kept);  // x keeps its gradient anyway
  EXPECT_ERROR(std::logic_error,
               "Tape::retain_gradient: the variable is a parameter, which keeps its own gradient",
               tape.retain_gradient(tape.parameter(weight)));
  EXPECT_ERROR(std::logic_error, "Tape::retain_gradient: the variable needs no gradient",
               tape.retain_gradient(tape.constant(scalar(1))));
  tape.backward(loss);
  EXPECT_EQ(tape.gradient(y).dense(), tensor({2}, {3, 3}));
  EXPECT_EQ(tape.gradient(loss).dense(), scalar(1));
  EXPECT_EQ(tape.gradient(x).dense(), tensor({2}, {6, 12}));
  EXPECT_THROW(tape.gradient(z), std::logic_error);
  EXPECT_ERROR(std::logic_error,
               "Tape::retain_gradient: backward() was already called on this tape",
               tape.retain_gradient(z));
}

TEST(Tape, RecordsLookups) {
  Parameter table("table", zeros({3, 2})), frozen("frozen", zeros({3, 2}));
  frozen.set_trainable(false);
  for (const Tape::Mode mode : {Tape::kGradient, Tape::kInference}) {
    Tape tape(mode);
    const Ids twice = {{1, 2}, {2, 2}}, flat = {0};
    embedding(tape.parameter(table), twice);
    embedding(tape.parameter(frozen), twice);
    embedding_bag(tape.parameter(table), {.ids = twice});
    embedding(tape.parameter(table), flat);
    ASSERT_EQ(tape.lookups().size(), mode == Tape::kInference ? 0U : 4U);
    for (std::size_t i = 0; i < tape.lookups().size(); ++i) {
      EXPECT_EQ(tape.lookups()[i].table, i == 1 ? &frozen : &table);
      EXPECT_EQ(tape.lookups()[i].ids, i < 3 ? twice : flat);
    }
  }
}

// A parameter may still change after its value was inspected.
TEST(Variable, InspectingTheValueDoesNotCountAsARead) {
  const auto print = [](const Variable& x) {
    std::ostringstream text;
    text << x;
    return text.str();
  };
  for (const auto& [name, inspect] : std::map<std::string, std::function<void(const Variable&)>>{
           {"nothing", [](const Variable&) {}},
           {"print", [&](const Variable& x) { print(x); }},
           {"value", [](const Variable& x) { x.value(); }},
           {"item", [](const Variable& x) { EXPECT_THROW(x.item(), std::invalid_argument); }}}) {
    Parameter table("table", full({3, 2}, 1));
    Tape tape;
    const Variable rows = tape.parameter(table);
    inspect(rows);
    EXPECT_FALSE(tape.has_read(table)) << name;
    const Variable y = sum(embedding(rows, Ids{0}, {.max_norm = 0.5}));
    inspect(rows);
    table.assign(full({3, 2}, 2));
    EXPECT_NO_THROW(tape.backward(y)) << name;
    inspect(rows);
  }
  Parameter one("one", scalar(2));
  Tape tape;
  const Variable x = tape.parameter(one);
  EXPECT_EQ(x.item(), 2);
  EXPECT_FALSE(tape.has_read(one));
  EXPECT_EQ(x.read(), scalar(2));
  EXPECT_TRUE(tape.has_read(one));

  // Prints the reason if the value is missing.
  const Variable y = tanh(x);
  tape.backward(y * y, {.keep_values = false});
  EXPECT_EQ(print(y), "tanh [] (tanh: backward() has released this value (see keep_values))");
}

TEST(Tape, RecordsTheTokensOfLookups) {
  Parameter table("table", zeros({5, 2}));
  Tape tape;
  const Ids tokens = ids({1, 2}, {1, 2}), rows = ids({1, 2, 2}, {0, 1, 3, 4});
  embedding(tape.parameter(table), rows, {.tokens = tokens});
  embedding_bag(tape.parameter(table), {.ids = ids({1, 2}, {0, 1})}, {.tokens = ids({1}, {7})});
  embedding(tape.parameter(table), rows);
  ASSERT_EQ(tape.lookups().size(), 3U);
  EXPECT_EQ(*tape.lookups()[0].tokens, tokens);
  EXPECT_EQ(*tape.lookups()[1].tokens, ids({1}, {7}));
  EXPECT_EQ(tape.lookups()[2].tokens, nullptr);
  for (const Ids& wrong : {ids({2, 1}, {1, 2}), ids({1, 2, 2, 1}, {0, 1, 3, 4})})
    EXPECT_INVALID(concat("embedding: tokens have shape ", bracketed(wrong.shape()),
                          ", expected the first axes of the ids' shape [1, 2, 2]"),
                   embedding(tape.parameter(table), rows, {.tokens = wrong}));
  EXPECT_EQ(tape.lookups().size(), 3U);
}

TEST(Tape, ConvertsToAGraph) {
  Parameter table("the \"table\"", zeros({3, 2}));
  Tape tape;
  const Variable x = tape.input(zeros({2}));
  const Variable rows = embedding(tape.parameter(table), ids({1}, {2}));
  const Variable product = rows * x;
  tape.backward(sum(product + tape.constant(scalar(1))));
  EXPECT_EQ(tape.to_dot(), R"(digraph tape {
  rankdir=LR;
  node [fontname="sans-serif"];
  n0 [shape=box, label="input\n[2]\ngradient: dense"];
  n1 [shape=box, label="the \"table\"\n[3, 2]\ngradient: rows"];
  n2 [shape=ellipse, label="embedding\n[1, 2]\ngradient: dense"];
  n1 -> n2;
  n3 [shape=ellipse, label="multiply\n[1, 2]\ngradient: dense"];
  n2 -> n3;
  n0 -> n3;
  n4 [shape=box, label="constant\n[]", color=gray];
  n5 [shape=ellipse, label="add\n[1, 2]\ngradient: dense"];
  n3 -> n5;
  n4 -> n5;
  n6 [shape=ellipse, label="sum\n[]\ngradient: dense"];
  n5 -> n6;
}
)");
}

TEST(Variable, PrintsNameShapeAndValue) {
  Parameter weight("token.weight", Tensor{0.5, -3});
  Tape tape;
  const Variable sum = tape.input(Tensor{1, 1}) + tape.parameter(weight);
  EXPECT_EQ(sum.name(), "add");
  EXPECT_EQ(concat(sum), "add [2] { 1.5, -2. }");
  EXPECT_EQ(concat(tape.parameter(weight)), "token.weight [2] { 0.5, -3. }");
  EXPECT_EQ(concat(tape.input(scalar(1)), ", ", tape.constant(scalar(2))),
            "input []  1., constant []  2.");
}

}  // namespace
