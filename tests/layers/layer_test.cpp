#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/layers/dropout.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/sequential.hpp>
#include <rowgrad/layers/sinusoidal.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

using testing::error_of;

class Inner : public Layer {
 public:
  explicit Inner(Random& random) : linear(2, 3, random), dropout(0.5) {
    register_layer("linear", linear);
    register_layer("dropout", dropout);
  }
  Linear linear;
  Dropout dropout;
};

class Outer : public Layer {
 public:
  explicit Outer(Random& random) : token(4, 2, random), sinusoidal(5, 2), inner(random) {
    register_layer("token", token);
    register_layer("sinusoidal", sinusoidal);
    register_layer("inner", inner);
  }
  Embedding token;
  Sinusoidal sinusoidal;
  Inner inner;
};

class Registering : public Layer {
 public:
  void add(const std::string& name) { register_parameter(name, parameter_); }

 private:
  Parameter parameter_{"p", zeros({1})};
};

// Reads the table of a part that another part owns.
class Borrower : public Layer {
 public:
  explicit Borrower(Parameter& table) { register_shared("table", table); }
};

class Tied : public Layer {
 public:
  explicit Tied(Random& random) : token(4, 2, random), head(token.weight(), random) {
    register_layer("head", head);  // before the owner, which must not matter
    register_layer("token", token);
  }
  Embedding token;
  Linear head;
};

std::vector<std::string> names(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> all;
  for (const Parameter* parameter : parameters) all.push_back(parameter->name());
  return all;
}

std::map<std::string, Tensor> copied(const Layer& layer) {
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : layer.state()) state[name] = *tensor;
  return state;
}

TEST(Layer, NamesItsPartsByTheirPlace) {
  Random random(1);
  const Outer outer(random);
  EXPECT_EQ(names(outer.parameters()),
            (std::vector<std::string>{"token.weight", "inner.linear.weight", "inner.linear.bias"}));
  std::vector<std::string> state;
  for (const auto& [name, tensor] : outer.state()) state.push_back(name);
  EXPECT_EQ(state, (std::vector<std::string>{"token.weight", "sinusoidal.table",
                                             "inner.linear.weight", "inner.linear.bias"}));
}

TEST(Layer, NamesALayerThatIsAddedAfterItsParentWasRegistered) {
  class Holder : public Layer {
   public:
    Holder() { register_layer("steps", steps); }
    Sequential steps;
  } holder;
  Random random(1);
  holder.eval();
  const Dropout& late = holder.steps.add<Dropout>(0.1);
  holder.steps.add<Linear>(2, 2, random);
  EXPECT_EQ(holder.parameters().front()->name(), "steps.1.weight");
  EXPECT_FALSE(late.training());
}

TEST(Layer, RefusesNamesThatCannotBeTold) {
  Registering layer;
  layer.add("weight");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { layer.add("weight"); }),
            "Layer: 'weight' is registered twice");
  EXPECT_THROW(layer.add("a.b"), std::invalid_argument);
  EXPECT_THROW(layer.add(""), std::invalid_argument);
}

TEST(Layer, CountsParametersButNoBuffers) {
  Random random(1);
  Outer outer(random);
  EXPECT_EQ(outer.parameter_count(), 4U * 2 + 3 * 2 + 3);
  outer.inner.freeze();
  EXPECT_EQ(outer.trainable_parameter_count(), 8U);
  outer.unfreeze();
  EXPECT_EQ(outer.trainable_parameter_count(), outer.parameter_count());
}

TEST(Layer, SummarisesNamesShapesAndCounts) {
  Random random(1);
  Outer outer(random);
  outer.token.freeze();
  EXPECT_EQ(outer.summary(),
            "name                 shape   parameters\n"
            "token.weight         [4, 2]  8 (frozen)\n"
            "sinusoidal.table     [5, 2]  buffer\n"
            "inner.linear.weight  [3, 2]  6\n"
            "inner.linear.bias    [3]     3\n"
            "total                        9 to train, 8 frozen\n");
  const Embedding large(1500, 1000, random);
  EXPECT_NE(large.summary().find("1,500,000\n"), std::string::npos) << large.summary();
}

TEST(Layer, ListsABorrowedParameterOnceUnderItsOwnersName) {
  Random random(1);
  Tied tied(random);
  EXPECT_EQ(names(tied.parameters()), (std::vector<std::string>{"token.weight", "head.bias"}));
  EXPECT_EQ(tied.parameter_count(), 8U + 4);
  EXPECT_EQ(tied.trainable_parameter_count(), 8U + 4);
  EXPECT_NO_THROW(SGD(tied.parameters(), {.learning_rate = 0.1}));
}

TEST(Layer, SavesABorrowedParameterOnceAndLoadsItForBoth) {
  Random random(1);
  const Tied source(random);
  std::vector<std::string> saved;
  for (const auto& [name, tensor] : source.state()) saved.push_back(name);
  EXPECT_EQ(saved, (std::vector<std::string>{"head.bias", "token.weight"}));
  Tied target(random);
  target.load_state(copied(source));
  EXPECT_EQ(target.head.weight().value(), source.token.weight().value());
  auto state = copied(source);
  state["head.weight"] = zeros({4, 2});
  EXPECT_THROW(target.load_state(state), std::invalid_argument);
}

TEST(Layer, FreezesWhatItBorrows) {
  Random random(1);
  Tied tied(random);
  tied.head.freeze();
  EXPECT_FALSE(tied.token.weight().trainable());
  EXPECT_EQ(tied.trainable_parameter_count(), 0U);
  tied.head.unfreeze();
  EXPECT_TRUE(tied.token.weight().trainable());
}

TEST(Layer, SummarisesWhatIsBorrowedByNamingIt) {
  Random random(1);
  const Tied tied(random);
  EXPECT_EQ(tied.summary(),
            "name          shape   parameters\n"
            "head.weight   [4, 2]  tied to token.weight\n"
            "head.bias     [4]     4\n"
            "token.weight  [4, 2]  8\n"
            "total                 12\n");
}

TEST(Layer, ListsButDoesNotSaveWhatABorrowerThatStandsAloneReads) {
  Random random(1);
  Embedding token(4, 2, random);
  Borrower borrower(token.weight());
  EXPECT_EQ(borrower.parameters(), std::vector<Parameter*>{&token.weight()});
  EXPECT_EQ(token.weight().name(), "weight");
  EXPECT_TRUE(borrower.state().empty());
  EXPECT_NO_THROW(borrower.load_state({}));
  EXPECT_EQ(borrower.summary(),
            "name   shape   parameters\n"
            "table  [4, 2]  8, tied to weight\n"
            "total          8\n");
}

TEST(Layer, RefusesABorrowedPartUnderATakenName) {
  class Twice : public Layer {
   public:
    explicit Twice(Parameter& table) {
      register_shared("table", table);
      register_shared("table", table);
    }
  };
  Parameter table("table", zeros({2, 2}));
  EXPECT_EQ(error_of<std::invalid_argument>([&] { Twice{table}; }),
            "Layer: 'table' is registered twice");
}

TEST(Layer, PassesModeOnToEverythingInIt) {
  Random random(1);
  Outer outer(random);
  EXPECT_TRUE(outer.inner.dropout.training());
  outer.eval();
  EXPECT_FALSE(outer.inner.dropout.training());
  outer.train();
  EXPECT_TRUE(outer.inner.dropout.training());
}

TEST(Layer, LoadsWhatAnotherOneSaved) {
  Random random(1);
  Outer source(random);
  Outer target(random);
  ASSERT_NE(copied(source), copied(target));
  target.load_state(copied(source));
  EXPECT_EQ(copied(source), copied(target));
}

TEST(Layer, RefusesAStateThatDoesNotFitAndChangesNothing) {
  Random random(1);
  Outer outer(random);
  const auto before = copied(outer);
  auto missing = before;
  missing.erase("inner.linear.bias");
  auto reshaped = before;
  reshaped["inner.linear.bias"] = zeros({4});
  auto unknown = before;
  unknown["head.weight"] = zeros({1});
  for (auto* state : {&missing, &reshaped, &unknown}) {
    if (state->contains("token.weight")) (*state)["token.weight"] = zeros({4, 2});
    EXPECT_THROW(outer.load_state(*state), std::invalid_argument);
    EXPECT_EQ(copied(outer), before);
  }
  EXPECT_EQ(error_of<std::invalid_argument>([&] { outer.load_state(missing); }),
            "Layer::load_state: 'inner.linear.bias' is missing");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { outer.load_state(reshaped); }),
            "Layer::load_state: 'inner.linear.bias' has shape [4], expected [3]");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { outer.load_state(unknown); }),
            "Layer::load_state: the layer has nothing named \"head.weight\"");
}

TEST(Layer, KeepsTheNumbersOfAStateThatAnOptimizerStepsOver) {
  testing::TemporaryFolder folder;
  const auto path = folder / "state.safetensors";
  for (const bool owed : {false, true}) {  // whether the state is of a table that is owed updates
    Random random(1);
    Embedding token(4, 2, random);
    SGD sgd(token.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    const auto step = [&](std::int32_t row) {
      sgd.zero_grad();
      Tape tape;
      tape.backward(sum(token.forward(tape, row)));
      sgd.step();
    };
    if (owed) step(1);
    const auto state = token.state();
    const auto expected = copied(token);
    step(2);
    step(3);
    write_safetensors(path, state);
    EXPECT_EQ(read_safetensors(path).tensors, expected);
    EXPECT_NE(copied(token), expected);
  }
}

class Holder : public Layer {
 public:
  void hold(const std::string& name, Layer& layer) { register_layer(name, layer); }
};

TEST(Layer, RefusesToContainItself) {
  Holder outer;
  Holder middle;
  Holder inner;
  const auto message = [](Holder& in, Holder& layer) {
    return error_of<std::invalid_argument>([&] { in.hold("part", layer); });
  };
  EXPECT_EQ(message(outer, outer), "Layer: 'part' would contain itself");
  outer.hold("middle", middle);
  middle.hold("inner", inner);
  EXPECT_EQ(message(inner, outer), "Layer: 'middle.inner.part' would contain itself");
  EXPECT_EQ(outer.summary(), "name   shape  parameters\ntotal         0\n");
}

TEST(Layer, RefusesALayerThatAnotherOneHolds) {
  Random random(1);
  Linear linear(2, 2, random);
  Holder outer;
  Holder inner;
  outer.hold("inner", inner);
  inner.hold("linear", linear);
  EXPECT_EQ(error_of<std::invalid_argument>([&] { outer.hold("again", linear); }),
            "Layer: 'again' is registered already, as 'inner.linear'");
  EXPECT_THROW(inner.hold("again", linear), std::invalid_argument);
  EXPECT_EQ(names(outer.parameters()),
            (std::vector<std::string>{"inner.linear.weight", "inner.linear.bias"}));
  EXPECT_EQ(outer.state().size(), 2U);
}

}  // namespace
}  // namespace rowgrad
