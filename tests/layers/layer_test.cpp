#include <deque>

#include "tests/test.hpp"

namespace {

class Inner : public Layer {
 public:
  explicit Inner(Random& random)
      : linear(*this, "linear", 2, 3, random), dropout(*this, "dropout", 0.5) {}
  Submodule<Linear> linear;
  Submodule<Dropout> dropout;
};

class Outer : public Layer {
 public:
  explicit Outer(Random& random)
      : token(*this, "token", 4, 2, random),
        sinusoidal(*this, "sinusoidal", 5, 2),
        inner(*this, "inner", random) {}
  Submodule<Embedding> token;
  Submodule<Sinusoidal> sinusoidal;
  Submodule<Inner> inner;
};

class Tied : public Layer {
 public:
  explicit Tied(Random& random)
      : token(*this, "token", 4, 2, random), head(*this, "head", token.weight, random) {}
  Submodule<Embedding> token;
  Submodule<Linear> head;
};

std::vector<std::string> names(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> all;
  for (const Parameter* parameter : parameters) all.push_back(parameter->name());
  return all;
}

TEST(Layer, NamesAndCountsItsParts) {
  Random random(1);
  Outer outer(random);
  EXPECT_EQ(outer.state_dict().names(),
            (std::vector<std::string>{"inner.linear.bias", "inner.linear.weight",
                                      "sinusoidal.table", "token.weight"}));
  outer.token.freeze();
  EXPECT_EQ(outer.parameter_count(), 17U);
  EXPECT_EQ(outer.summary(),
            "name                 shape   parameters\n"
            "token.weight         [4, 2]  8 (frozen)\n"
            "sinusoidal.table     [5, 2]  buffer\n"
            "inner.linear.weight  [3, 2]  6\n"
            "inner.linear.bias    [3]     3\n"
            "total                        9 trainable, 8 frozen\n");
  const Embedding large(1500, 1000, random);
  EXPECT_HAS(large.summary(), "1,500,000\n");
  EXPECT_HAS(Embedding(300, 500, random).summary(), " 150,000\n");
}

TEST(Layer, HandlesBorrowedParametersOnce) {
  Random random(1);
  Tied tied(random);
  EXPECT_EQ(names(tied.parameters()), (std::vector<std::string>{"token.weight", "head.bias"}));
  EXPECT_EQ(tied.state_dict().names(), (std::vector<std::string>{"head.bias", "token.weight"}));
  EXPECT_EQ(tied.summary(),
            "name          shape   parameters\n"
            "token.weight  [4, 2]  8\n"
            "head.weight   [4, 2]  tied to token.weight\n"
            "head.bias     [4]     4\n"
            "total                 12\n");
  EXPECT_THROW(tied.load_state_dict(with(tied.state_dict(), "head.weight", zeros({4, 2}))),
               std::invalid_argument);
  tied.freeze("head.*");
  EXPECT_EQ(tied.trainable_parameter_count(), 0U);
  tied.unfreeze("head.*");
  EXPECT_EQ(tied.trainable_parameter_count(), 12U);
}

TEST(Layer, ListsButDoesNotSaveBorrowedParameters) {
  class Borrower : public Layer {
   public:
    explicit Borrower(Parameter& table) { share("table", table); }
  };
  Random random(1);
  std::optional<Embedding> token(std::in_place, 4, 2, random);
  { const Borrower goes_first(token->weight); }
  Borrower borrower(token->weight);
  EXPECT_TRUE(borrower.state_dict().empty());
  EXPECT_EQ(borrower.summary(),
            "name   shape   parameters\n"
            "table  [4, 2]  8, tied to weight\n"
            "total          8\n");
  token.reset();
  EXPECT_TRUE(borrower.parameters().empty());
}

TEST(Layer, RejectsInvalidAndDuplicateNames) {
  class Growing : public Layer {
   public:
    void add(const std::string& name) { parameters_.emplace_back(*this, name, zeros({1})); }
    void borrow(const std::string& name) { share(name, parameters_.front()); }

   private:
    std::deque<Parameter> parameters_;
  } layer;
  layer.add("weight");
  layer.borrow("borrowed");
  const std::string duplicate = "Layer: 'weight' is a duplicate name";
  EXPECT_INVALID(duplicate, layer.add("weight"));
  EXPECT_INVALID(duplicate, layer.borrow("weight"));
  EXPECT_INVALID("Layer: 'borrowed' is a duplicate name", layer.add("borrowed"));
  EXPECT_THROW(layer.add("a.b"), std::invalid_argument);
  EXPECT_THROW(layer.add(""), std::invalid_argument);
}

TEST(Layer, SelectsParametersByPatternAndLayersByType) {
  Random random(1);
  Outer outer(random);
  outer.freeze("inner.*.weight,tok??.*");
  EXPECT_EQ(outer.trainable_parameter_count(), 3U);
  EXPECT_EQ(names(outer.parameters("*.bias")), std::vector<std::string>{"inner.linear.bias"});
  EXPECT_EQ(names(outer.inner.parameters("linear.bias")),  // relative name
            std::vector<std::string>{"inner.linear.bias"});
  outer.unfreeze("inner.linear.[a-w]*");
  EXPECT_EQ(outer.trainable_parameter_count(), 9U);
  EXPECT_INVALID(
      R"(Layer: no parameter matches "inner.bias"; the first names are ["token.weight", )"
      R"("inner.linear.weight", "inner.linear.bias"])",
      outer.freeze("token.*,inner.bias"));
  EXPECT_EQ(outer.trainable_parameter_count(), 9U);
  const auto found = outer.named_layers<Linear>();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0],
            std::pair(std::string("inner.linear"), static_cast<Linear*>(&outer.inner.linear)));
  EXPECT_EQ(outer.inner.named_layers<Linear>()[0].first, "linear");
  EXPECT_EQ(outer.named_layers<Layer>().front().first, "");
}

TEST(Layer, SavesAndLoadsSelectedNames) {
  Random random(1);
  Outer source(random);
  Outer target(random);
  const StateDict inner = source.state_dict("inner.*");
  EXPECT_EQ(inner.names(), (std::vector<std::string>{"inner.linear.bias", "inner.linear.weight"}));
  const Tensor token = target.token.weight.copy();
  target.load_state_dict(inner, {.names = "inner.*"});
  target.load_state_dict(source.state_dict(), {.names = "inner.*.bias"});
  EXPECT_TRUE(bits_of(target.state_dict("inner.*")) == bits_of(inner));
  EXPECT_EQ(target.token.weight.value(), token);
  EXPECT_INVALID(R"(Layer::load_state_dict: missing names: ["token.weight"], unexpected names: [])",
                 target.load_state_dict(inner, {.names = "token.*"}));
  EXPECT_THROW(source.state_dict("outer.*"), std::invalid_argument);
  // A part on its own has names relative to itself.
  EXPECT_EQ(source.inner.state_dict().names(),
            (std::vector<std::string>{"linear.bias", "linear.weight"}));
}

TEST(Layer, SharesExternalLayersAndSetsTheirMode) {
  class Head : public Layer {
   public:
    explicit Head(Layer& other) { share("body", other); }
    void share_itself() { share("self", *this); }
  };
  Random random(1);
  std::optional<Outer> outer(std::in_place, random);
  {
    Head head(*outer);
    EXPECT_EQ(head.parameters().front()->name(), "body.token.weight");
    EXPECT_EQ(outer->state_dict().names().front(), "inner.linear.bias");
    EXPECT_INVALID("Layer: 'self' would be a part of itself", head.share_itself());
    EXPECT_INVALID("Layer: 'body' is already a part of another layer", Head{*outer});
    head.eval();
    EXPECT_FALSE(outer->inner.dropout.training());
    head.train();
    EXPECT_TRUE(outer->inner.dropout.training());
  }
  EXPECT_EQ(outer->parameters().front()->name(), "token.weight");
  const Head of_none(*outer);
  outer.reset();
  EXPECT_TRUE(of_none.parameters().empty());
}

TEST(EvaluationMode, RestoresTheModeOfEachPart) {
  struct Pair : Layer {
    Submodule<Dropout> first{*this, "first", 0.5}, second{*this, "second", 0.5};
  };
  struct Three : Layer {
    Submodule<Pair> nested{*this, "nested"};
    Submodule<Dropout> last{*this, "last", 0.5};
  } outer;
  const std::vector<Layer*> all{&outer, &outer.nested, &outer.nested.first, &outer.nested.second,
                                &outer.last};
  for (const std::vector<bool>& modes :
       std::vector<std::vector<bool>>{{true, true, true, true, true},
                                      {true, true, false, true, true},
                                      {false, true, true, false, true},
                                      {false, false, false, false, false}}) {
    for (std::size_t i = 0; i < all.size(); ++i) modes[i] ? all[i]->train() : all[i]->eval();
    {
      const EvaluationMode outside(outer);
      const EvaluationMode inside(outer.nested);
      for (const Layer* layer : all) EXPECT_FALSE(layer->training());
    }
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]->training(), modes[i]) << i;
  }
}

TEST(Layer, RejectsMismatchedStateDictUnchanged) {
  Random random(1);
  Outer outer(random);
  const StateDict before = outer.state_dict();
  const StateDict other = with(before, "token.weight", zeros({4, 2}));
  const auto refusal = [&](const StateDict& state, const LoadOptions& options = {}) {
    const std::string message =
        error_of<std::invalid_argument>([&] { outer.load_state_dict(state, options); });
    EXPECT_TRUE(bits_of(outer.state_dict()) == bits_of(before)) << message;
    return message;
  };
  EXPECT_EQ(refusal(without(other, "inner.linear.bias")),
            "Layer::load_state_dict: missing names: [\"inner.linear.bias\"], unexpected names: []");
  EXPECT_EQ(refusal(with(other, "head.weight", zeros({1}))),
            "Layer::load_state_dict: missing names: [], unexpected names: [\"head.weight\"]");
  for (const bool strict : {true, false}) {
    EXPECT_EQ(refusal(with(other, "inner.linear.bias", zeros({4})), {.strict = strict}),
              "StateDict: \"inner.linear.bias\" has shape [4], expected [3]");
    EXPECT_EQ(refusal(with(other, "inner.linear.bias", "text"), {.strict = strict}),
              "StateDict: \"inner.linear.bias\" is not a tensor");
  }
}

TEST(Layer, LoadsMatchingNamesOfForeignStateDict) {
  Random random(1);
  Outer outer(random);
  StateDict foreign;
  foreign.put("format", "pt");
  foreign.put("token.weight", full({4, 2}, 3));
  foreign.put("inner.linear.bias", StateDict::Doubles{{3}, {1, 2, 0.1}});
  foreign.put("lm_head.weight", zeros({4, 2}));
  StateDict expected = with(outer.state_dict(), "token.weight", full({4, 2}, 3));
  expected = with(expected, "inner.linear.bias", Tensor{1, 2, static_cast<real>(0.1)});
  const LoadReport report = outer.load_state_dict(foreign, {.strict = false});
  EXPECT_EQ(report.missing, (std::vector<std::string>{"sinusoidal.table", "inner.linear.weight"}));
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"lm_head.weight"});
  EXPECT_TRUE(bits_of(outer.state_dict()) == bits_of(expected));
}

TEST(Layer, ForgetsDestroyedParts) {
  class Holder : public Layer {
   public:
    Parameter kept{*this, "kept", zeros({2})};
    std::optional<Parameter> parameter;
    std::optional<Buffer> buffer;
    std::optional<Submodule<Linear>> layer;
  } holder;
  Random random(1);
  for (int i = 0; i < 2; ++i) {
    holder.parameter.emplace(holder, "parameter", zeros({1}));
    holder.buffer.emplace(holder, "buffer", zeros({1}));
    holder.layer.emplace(holder, "layer", 2, 2, random);
    EXPECT_EQ(holder.state_dict().names().size(), 5U);
    holder.parameter.reset();
    holder.buffer.reset();
    holder.layer.reset();
    EXPECT_EQ(holder.state_dict().names(), std::vector<std::string>{"kept"});
  }
}

TEST(Layer, CanBeDestroyedBeforeItsParts) {
  class Empty : public Layer {};
  auto owner = std::make_unique<Empty>();
  Random random(1);
  const Parameter parameter(*owner, "parameter", zeros({1}));
  const Buffer buffer(*owner, "buffer", zeros({1}));
  const Submodule<Linear> layer(*owner, "layer", 2, 2, random);
  EXPECT_EQ(owner->state_dict().names().size(), 4U);
  owner.reset();
}

TEST(Layer, OutermostLayersNameRows) {
  struct Letters : Layer {
    explicit Letters(Random& random)
        : token(*this, "token", 2, 3, random, EmbeddingOptions{.kind = RowKind::kToken}) {}
    std::optional<RowNames> row_names(const Parameter& table) const override {
      if (&table != &token.weight) return {};
      return RowNames{.noun = "letter", .names = {"a", "b"}};
    }
    Submodule<Embedding> token;
  };
  struct Named : Layer {
    explicit Named(Random& random) : letters(*this, "letters", random) {}
    std::optional<RowNames> row_names(const Parameter&) const override {
      return RowNames{.noun = "character"};
    }
    Submodule<Letters> letters;
  };
  Random random(1);
  const Named outer(random);
  const Letters& letters = outer.letters;
  const RowNames all = outer.resolve_row_names(letters.token.weight);
  EXPECT_EQ(all.kind, RowKind::kToken);
  EXPECT_EQ(all.word(), "character");
  EXPECT_EQ(all.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(letters.resolve_row_names(letters.token.weight).word(), "letter");
  EXPECT_EQ(letters.token.resolve_row_names(letters.token.weight).word(), "token");
}

TEST(LayerList, NamesLayersByIndex) {
  class Stack : public Layer {
   public:
    explicit Stack(Random& random) : blocks(*this, "blocks", 2, 3, 3, random) {}
    Submodule<LayerList<Linear>> blocks;
    Submodule<LayerList<Linear>> more{*this, "more"};  // starts empty
  };
  Random random(1);
  Stack stack(random);
  stack.eval();
  stack.blocks.add(3, 1, random);
  const Linear& late = stack.more.add(2, 3, random);
  EXPECT_FALSE(late.training());
  EXPECT_EQ(names(stack.parameters()),
            (std::vector<std::string>{"blocks.0.weight", "blocks.0.bias", "blocks.1.weight",
                                      "blocks.1.bias", "blocks.2.weight", "blocks.2.bias",
                                      "more.0.weight", "more.0.bias"}));
  std::size_t index = 0;
  for (Linear& block : stack.blocks) EXPECT_EQ(&block, &stack.blocks[index++]);
  EXPECT_EQ(index, stack.blocks.size());
}

}  // namespace
