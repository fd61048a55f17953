// Every op, forward and backward, while memory runs out: std::bad_alloc is thrown, and either all
// gradients have been added or none.

#include "tests/test.hpp"
#include <rowgrad/core/kernels/parallel.hpp>

namespace {

// Parameters and a function of them.
class Computation {
 public:
  Computation(Function function, const std::vector<Shape>& shapes)
      : function_(std::move(function)) {
    for (const Shape& shape : shapes)
      parameters_.push_back(std::make_unique<Parameter>(
          "p" + std::to_string(parameters_.size()),
          irregular(shape, static_cast<int>(parameters_.size()), 0.5, 1.5)));
  }

  // Adds to the gradients.
  void run() {
    Random random(1);
    Tape tape(random);
    std::vector<Variable> variables;
    for (const auto& parameter : parameters_) variables.push_back(tape.parameter(*parameter));
    tape.backward(weighted_sum(function_(variables)));
  }

  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const auto& parameter : parameters_)
      all.push_back(Gradient(parameter->gradient()).take_dense());
    return all;
  }

 private:
  Function function_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

// Tests the second call, so that there are gradients to add to.
void expect_all_or_nothing(const std::string& what, const Function& function,
                           const std::vector<Shape>& shapes) {
  SCOPED_TRACE(what);
  const auto make = [&] {
    auto computation = std::make_unique<Computation>(function, shapes);
    computation->run();
    return computation;
  };
  const auto twin = make();
  const std::vector<Tensor> before = twin->gradients();
  twin->run();
  const std::vector<Tensor> after = twin->gradients();
  for_every_failure(
      make, [](Computation& computation) { computation.run(); },
      [&](Computation& computation, bool finished) {
        EXPECT_EQ(computation.gradients(), finished ? after : before);
        if (finished) return;
        computation.run();
        EXPECT_EQ(computation.gradients(), after);
      });
}

TEST(FailingMemory, LeavesArithmeticAllOrNothing) {
  const std::vector<Shape> pair{{3, 4}, {4}};
  expect_all_or_nothing(
      "add", [](Inputs x) { return x[0] + x[1]; }, pair);
  expect_all_or_nothing(
      "subtract", [](Inputs x) { return x[0] - x[1]; }, pair);
  expect_all_or_nothing(
      "multiply", [](Inputs x) { return x[0] * x[1]; }, pair);
  expect_all_or_nothing(
      "divide", [](Inputs x) { return x[0] / x[1]; }, pair);
  expect_all_or_nothing("a number", [](Inputs x) { return 2 - 3 / (-x[0] * 2 + 5); }, {{3, 4}});
  expect_all_or_nothing("gelu", [](Inputs x) { return gelu(tanh(x[0])); }, {{3, 4}});
}

TEST(FailingMemory, LeavesReductionsAllOrNothing) {
  const auto total = [](Inputs x) { return sum(x[0]) + sum(x[1]); };
  expect_all_or_nothing("sum", total, {{3, 4}, {30, 4}});
  expect_all_or_nothing("sum of an axis", [](Inputs x) { return sum(x[0], {0, 2}); }, {{3, 4, 2}});
  expect_all_or_nothing("mean", [](Inputs x) { return mean(x[0], {1}); }, {{3, 4}});
  expect_all_or_nothing("cumsum", [](Inputs x) { return cumsum(x[0], 0); }, {{3, 4}});
  expect_all_or_nothing("stddev", [](Inputs x) { return stddev(x[0], {1}); }, {{3, 4}});
  expect_all_or_nothing("norm", [](Inputs x) { return norm(x[0], {0}); }, {{3, 4}});
}

TEST(FailingMemory, LeavesSelectionsAllOrNothing) {
  const Ids places = ids({2, 2}, {3, 0, 1, 1});
  expect_all_or_nothing("min", [](Inputs x) { return min(x[0], 1); }, {{3, 4}});
  expect_all_or_nothing("gather", [&](Inputs x) { return gather(x[0], 1, places); }, {{3, 4}});
}

TEST(FailingMemory, LeavesShapesAllOrNothing) {
  const Shape shape{2, 3, 4};
  expect_all_or_nothing("reshape", [](Inputs x) { return reshape(x[0], {4, 6}); }, {shape});
  expect_all_or_nothing("permute", [](Inputs x) { return permute(x[0], {2, 0, 1}); }, {shape});
  expect_all_or_nothing("transpose", [](Inputs x) { return transpose(x[0]); }, {shape});
  expect_all_or_nothing("slice", [](Inputs x) { return slice(x[0], 1, 0, kAxisEnd, 2); }, {shape});
  expect_all_or_nothing("concatenate",
                        [](Inputs x) {
                          return concatenate({x[0], x[1]}, 1);
                        },
                        {shape, shape});
}

TEST(FailingMemory, LeavesProductsAllOrNothing) {
  const auto product = [](Inputs x) { return matmul(x[0], x[1]); };
  expect_all_or_nothing("matmul", product, {{2, 3, 4}, {4, 5}});
  expect_all_or_nothing("matmul of stacks", product, {{6, 3, 4}, {6, 4, 5}});
  expect_all_or_nothing("linear", [](Inputs x) { return linear(x[0], x[1], x[2]); },
                        {{2, 3, 4}, {5, 4}, {5}});
}

TEST(FailingMemory, LeavesLossesAllOrNothing) {
  const Ids targets = ids({2, 3}, {4, 0, 1, 4, 2, 3});
  expect_all_or_nothing("cross_entropy", [&](Inputs x) { return cross_entropy(x[0], targets); },
                        {{2, 3, 5}});
  expect_all_or_nothing("linear_cross_entropy",
                        [&](Inputs x) { return linear_cross_entropy(x[0], x[1], x[2], targets); },
                        {{2, 3, 4}, {5, 4}, {5}});
  expect_all_or_nothing("softmax", [](Inputs x) { return softmax(x[0]); }, {{3, 4}});
  expect_all_or_nothing("mse_loss", [](Inputs x) { return mse_loss(x[0], x[1]); },
                        {{3, 4}, {3, 4}});
  expect_all_or_nothing("logsumexp", [](Inputs x) { return logsumexp(x[0], 0); }, {{3, 4}});
  expect_all_or_nothing("log_softmax", [](Inputs x) { return log_softmax(x[0], 0); }, {{3, 4}});
  expect_all_or_nothing("dropout", [](Inputs x) { return dropout(x[0], 0.5); }, {{3, 4}});
}

TEST(FailingMemory, LeavesAttentionAllOrNothing) {
  const Shape rows{2, 3, 4};
  expect_all_or_nothing("causal_attention",
                        [](Inputs x) {
                          return causal_attention(
                              x[0], x[1], x[2],
                              {.heads = 2, .dropout_p = 0.3, .distance_bias = x[3]});
                        },
                        {rows, rows, rows, {2, 3}});
  expect_all_or_nothing("attention",
                        [](Inputs x) {
                          return attention(x[0], x[1], x[2], {.heads = 2, .key_lengths = {3, 2}});
                        },
                        {rows, rows, rows});
}

TEST(FailingMemory, LeavesLookupsAllOrNothing) {
  const Ids twice = ids({2, 3}, {4, 0, 1, 4, 2, 3});
  const Ids rising = ids({3}, {1, 2, 5});
  const Shape table{6, 4};
  expect_all_or_nothing("embedding", [&](Inputs x) { return embedding(x[0], twice); }, {table});
  expect_all_or_nothing("embedding of rising ids",
                        [&](Inputs x) { return embedding(x[0], rising); }, {table});
  expect_all_or_nothing(
      "dense embedding",
      [&](Inputs x) { return embedding(x[0], twice, {.padding_idx = 1, .dense_gradient = true}); },
      {table});
  expect_all_or_nothing("embedding_add", [&](Inputs x) { return embedding_add(x[1], twice, x[0]); },
                        {{3, 4}, table});
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
    expect_all_or_nothing(
        "embedding_bag",
        [&](Inputs x) { return embedding_bag(x[0], {.ids = twice}, {.mode = mode}); }, {table});
  expect_all_or_nothing("weighted embedding_bag",
                        [&](Inputs x) {
                          return embedding_bag(x[1], {.ids = twice, .per_sample_weights = x[0]},
                                               {.mode = BagMode::kSum});
                        },
                        {{2, 3}, table});
  expect_all_or_nothing("a table read in both ways",
                        [&](Inputs x) { return linear(embedding(x[0], twice), x[0], x[1]); },
                        {table, {6}});
}

// The sum of a long row allocates memory for its parts; here two threads sum rows.
TEST(FailingMemory, LetsBadAllocOutOfParallelLoops) {
  const Threads scope(2);
  const Tensor x = irregular({4, 2 * kernels::kGrainNumbers});
  const std::vector<bool> last{false, true};
  for_every_failure([] { return std::make_unique<Tensor>(); },
                    [&](Tensor& sums) { sums = kernels::sum_along(x, last); },
                    [&](const Tensor& sums, bool finished) {
                      if (finished) {
                        EXPECT_EQ(sums, kernels::sum_along(x, last));
                      }
                    });
}

}  // namespace
