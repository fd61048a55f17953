#include <deque>
#include <memory>
#include <optional>

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
  explicit Inner(Random& random)
      : linear(*this, "linear", 2, 3, random), dropout(*this, "dropout", 0.5) {}
  Part<Linear> linear;
  Part<Dropout> dropout;
};

class Outer : public Layer {
 public:
  explicit Outer(Random& random)
      : token(*this, "token", 4, 2, random),
        sinusoidal(*this, "sinusoidal", 5, 2),
        inner(*this, "inner", random) {}
  Part<Embedding> token;
  Part<Sinusoidal> sinusoidal;
  Part<Inner> inner;
};

class Growing : public Layer {
 public:
  void add(const std::string& name) { parameters_.emplace_back(*this, name, zeros({1})); }

 private:
  std::deque<Parameter> parameters_;
};

// Reads the table of a part that another part owns.
class Borrower : public Layer {
 public:
  explicit Borrower(Parameter& table) { share("table", table); }
};

class Tied : public Layer {
 public:
  explicit Tied(Random& random)
      : token(*this, "token", 4, 2, random), head(*this, "head", token.weight, random) {}
  Part<Embedding> token;
  Part<Linear> head;
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
    Holder() : steps(*this, "steps") {}
    Part<Sequential> steps;
  } holder;
  Random random(1);
  holder.eval();
  const Dropout& late = holder.steps.add<Dropout>(0.1);
  holder.steps.add<Linear>(2, 2, random);
  EXPECT_EQ(holder.parameters().front()->name(), "steps.1.weight");
  EXPECT_FALSE(late.training());
}

TEST(Layer, RefusesNamesThatCannotBeTold) {
  Growing layer;
  layer.add("weight");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { layer.add("weight"); }),
            "Layer: 'weight' is there twice");
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
  EXPECT_EQ(saved, (std::vector<std::string>{"token.weight", "head.bias"}));
  Tied target(random);
  target.load_state(copied(source));
  EXPECT_EQ(target.head.weight.value(), source.token.weight.value());
  auto state = copied(source);
  state["head.weight"] = zeros({4, 2});
  EXPECT_THROW(target.load_state(state), std::invalid_argument);
}

TEST(Layer, FreezesWhatItBorrows) {
  Random random(1);
  Tied tied(random);
  tied.head.freeze();
  EXPECT_FALSE(tied.token.weight.trainable());
  EXPECT_EQ(tied.trainable_parameter_count(), 0U);
  tied.head.unfreeze();
  EXPECT_TRUE(tied.token.weight.trainable());
}

TEST(Layer, SummarisesWhatIsBorrowedByNamingIt) {
  Random random(1);
  const Tied tied(random);
  EXPECT_EQ(tied.summary(),
            "name          shape   parameters\n"
            "token.weight  [4, 2]  8\n"
            "head.weight   [4, 2]  tied to token.weight\n"
            "head.bias     [4]     4\n"
            "total                 12\n");
}

TEST(Layer, ListsButDoesNotSaveWhatABorrowerThatStandsAloneReads) {
  Random random(1);
  Embedding token(4, 2, random);
  Borrower borrower(token.weight);
  EXPECT_EQ(borrower.parameters(), std::vector<Parameter*>{&token.weight});
  EXPECT_EQ(token.weight.name(), "weight");
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
      share("table", table);
      share("table", table);
    }
  };
  Parameter table("table", zeros({2, 2}));
  EXPECT_EQ(error_of<std::invalid_argument>([&] { Twice{table}; }),
            "Layer: 'table' is there twice");
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

TEST(Layer, ForgetsPartsThatGoBeforeIt) {
  class Holder : public Layer {
   public:
    Holder() : kept(*this, "kept", zeros({2})) {}
    Parameter kept;
    std::optional<Parameter> parameter;
    std::optional<Buffer> buffer;
    std::optional<Part<Linear>> layer;
  } holder;
  Random random(1);
  for (int i = 0; i < 2; ++i) {
    holder.parameter.emplace(holder, "parameter", zeros({1}));
    holder.buffer.emplace(holder, "buffer", zeros({1}));
    holder.layer.emplace(holder, "layer", 2, 2, random);
    EXPECT_EQ(holder.parameters().size(), 4U);
    EXPECT_EQ(holder.state().size(), 5U);
    holder.parameter.reset();
    holder.buffer.reset();
    holder.layer.reset();
    EXPECT_EQ(names(holder.parameters()), std::vector<std::string>{"kept"});
    EXPECT_EQ(holder.state().size(), 1U);
  }
}

TEST(Layer, MayGoBeforeItsParts) {
  class Empty : public Layer {};
  auto owner = std::make_unique<Empty>();
  Random random(1);
  const Parameter parameter(*owner, "parameter", zeros({1}));
  const Buffer buffer(*owner, "buffer", zeros({1}));
  const Part<Linear> layer(*owner, "layer", 2, 2, random);
  EXPECT_EQ(owner->state().size(), 4U);
  owner.reset();
}

TEST(Layer, MayGoBeforeWhatItBorrowed) {
  Random random(1);
  Embedding token(4, 2, random);
  { const Borrower borrower(token.weight); }
  auto borrowed = std::make_unique<Embedding>(4, 2, random);
  const Borrower borrower(borrowed->weight);
  borrowed.reset();
  EXPECT_TRUE(borrower.parameters().empty());
}

TEST(LayerList, NamesItsLayersByTheirPlace) {
  class Stack : public Layer {
   public:
    explicit Stack(Random& random) : blocks(*this, "blocks", 2, 3, 3, random) {}
    Variable forward(Variable x) {
      for (Linear& block : blocks) x = block.forward(x);
      return x;
    }
    Part<LayerList<Linear>> blocks;
  };
  Random random(1);
  Stack stack(random);
  stack.blocks.add(3, 1, random);
  EXPECT_EQ(stack.blocks.size(), 3U);
  EXPECT_EQ(names(stack.parameters()),
            (std::vector<std::string>{"blocks.0.weight", "blocks.0.bias", "blocks.1.weight",
                                      "blocks.1.bias", "blocks.2.weight", "blocks.2.bias"}));
  Tape tape;
  const Variable x = tape.input(full({2, 3}, 1));
  EXPECT_EQ(stack.forward(x).value(),
            stack.blocks[2].forward(stack.blocks[1].forward(stack.blocks[0].forward(x))).value());
}

}  // namespace
}  // namespace rowgrad
