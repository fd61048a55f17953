// A textbook GPT block, made from existing layers and ops.

#include "tests/test.hpp"

// Layers named as the library's.
namespace gpt_block {
namespace {

class LayerNorm : public Layer {
 public:
  explicit LayerNorm(std::size_t width)
      : scale(*this, "scale", full({width}, 1)), shift(*this, "shift", zeros({width})) {}
  Variable forward(const Variable& x) {
    const Variable centered = x - mean(x, {-1}, KeepAxes::kYes);
    const Variable variance = mean(centered * centered, {-1}, KeepAxes::kYes);
    Tape& tape = x.tape();
    return centered / sqrt(variance + real{1e-5}) * tape.parameter(scale) + tape.parameter(shift);
  }
  Parameter scale, shift;
};

class Attention : public Layer {
 public:
  Attention(std::size_t width, std::size_t heads, Random& random)
      : heads_(heads),
        query(*this, "query", width, width, random),
        key(*this, "key", width, width, random),
        value(*this, "value", width, width, random),
        out(*this, "out", width, width, random) {}

  Variable forward(const Variable& x) {  // [batch, length, width]
    const std::size_t batch = x.shape()[0], length = x.shape()[1], width = x.shape()[2];
    const auto by_head = [&](const Variable& y) {
      return transpose(reshape(y, {batch, length, heads_, width / heads_}), 1, 2);
    };
    Tensor future = zeros({length, length});
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = i + 1; j < length; ++j) future(i, j) = 1;
    const Variable scores = matmul(by_head(query.forward(x)), transpose(by_head(key.forward(x)))) /
                            std::sqrt(static_cast<real>(width / heads_));
    const Variable weights = softmax(
        masked_fill(scores, x.tape().constant(future), -std::numeric_limits<real>::infinity()));
    const Variable mixed = transpose(matmul(weights, by_head(value.forward(x))), 1, 2);
    return out.forward(reshape(mixed, x.shape()));
  }

 private:
  std::size_t heads_;

 public:
  Part<Linear> query, key, value, out;
};

class Block : public Layer {
 public:
  Block(std::size_t width, std::size_t heads, Random& random)
      : norm1(*this, "norm1", width),
        attention(*this, "attention", width, heads, random),
        norm2(*this, "norm2", width),
        feed_forward(*this, "feed_forward", std::vector{width, 4 * width, width}, random,
                     MlpOptions{.activation = gelu_tanh}) {}

  Variable forward(const Variable& x) {
    const Variable y = x + attention.forward(norm1.forward(x));
    return y + feed_forward.forward(norm2.forward(y));
  }

  Part<LayerNorm> norm1;
  Part<Attention> attention;
  Part<LayerNorm> norm2;
  Part<Mlp> feed_forward;
};

class Stack : public Layer {
 public:
  Stack(std::size_t layers, Random& random) : blocks(*this, "blocks", layers, 4, 2, random) {}
  Variable forward(Variable x) {
    for (Block& block : blocks) x = block.forward(x);
    return x;
  }
  Part<LayerList<Block>> blocks;
};

TEST(GptBlock, NamesEveryPart) {
  Random random(1);
  const Stack stack(2, random);
  // Two norms of 2 · 4, four linear layers of 16 + 4, and 4 → 16 → 4.
  EXPECT_EQ(stack.parameter_count(), 2U * (2 * 8 + 4 * 20 + (64 + 16) + (64 + 4)));
  EXPECT_EQ(stack.parameters().front()->name(), "blocks.0.norm1.scale");
  EXPECT_EQ(stack.parameters().back()->name(), "blocks.1.feed_forward.2.bias");
}

TEST(GptBlock, SeesNoFutureTokens) {
  Random random(1);
  Stack stack(1, random);
  Tensor x = random.normal({1, 3, 4});
  Tape tape(Tape::inference);
  const Tensor before = stack.forward(tape.constant(x)).value();
  x(0, 2, 1) += 1;
  const Tensor after = stack.forward(tape.constant(x)).value();
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(before(0, t, i) == after(0, t, i), t < 2) << t << ' ' << i;
}

// A layer that is not a Part works, but is not trained.
class Forgetful : public Layer {
 public:
  explicit Forgetful(Random& random)
      : first(*this, "first", 2, 2, random), second(2, 2, random, {.bias = false}) {}
  Variable forward(const Variable& x) { return second.forward(first.forward(x)); }
  Part<Linear> first;
  Linear second;
};

TEST(Optimizer, NamesWhatItWouldNotTrain) {
  Random random(1);
  Forgetful model(random);
  SGD sgd(model.parameters());
  Tape tape;
  model.forward(tape.constant(zeros({1, 2})));
  EXPECT_ERROR(std::logic_error,
               "Optimizer: 'weight' [2, 2] takes part in the loss, but is none of the optimizer's "
               "parameters: is its layer a Part of the model?",
               sgd.check_trains_all(tape));
  model.second.freeze();
  Tape frozen;
  model.forward(frozen.constant(zeros({1, 2})));
  EXPECT_NO_THROW(sgd.check_trains_all(frozen));
}

#ifdef ROWGRAD_DOUBLE
TEST(GptBlock, HasTheGradientsOfDifferenceQuotients) {
  Random random(1);
  Stack stack(2, random);
  const Tensor x = random.normal({2, 3, 4});
  const auto result = gradient_check([&](Tape& tape) { return stack.forward(tape.constant(x)); },
                                     stack.parameters());
  EXPECT_TRUE(result.passed) << result.message();
}
#endif

}  // namespace
}  // namespace gpt_block
