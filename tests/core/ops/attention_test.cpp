#include "tests/test.hpp"

namespace {

struct AttentionCase {
  std::size_t batch, heads, queries, keys, width;
  bool bias = false;
  double p = 0;
  bool causal = true;
  std::vector<std::size_t> key_lengths = {};
  std::size_t distances = 0;  // number of rows of the relative tables
  Shape scores = {};          // shape of the bias of scores; empty for none
  std::size_t group = 1;      // heads of q that share a head of k and v

  std::string what() const {
    return concat("batch ", batch, ", heads ", heads, ", queries ", queries, ", keys ", keys,
                  ", width ", width, ", bias ", bias, ", p ", p, ", causal ", causal,
                  ", key_lengths ", bracketed(key_lengths), ", distances ", distances, ", scores ",
                  bracketed(scores), ", group ", group);
  }
  // Returns q, k, v and, if the case has them, relative keys and values, the bias of scores, and
  // the distance bias.
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all{irregular({batch, queries, heads * width}, 1),
                            irregular({batch, keys, heads / group * width}, 2),
                            irregular({batch, keys, heads / group * width}, 3)};
    if (distances > 0)
      for (const int seed : {4, 5}) all.push_back(irregular({distances, width}, seed));
    if (!scores.empty()) {
      all.push_back(irregular(scores, 7));
      if (scores.back() > 1)  // all queries see key 0
        for (std::size_t i = 0; i < all.back().size(); ++i)
          if (i % scores.back() % 3 == 2) all.back().data()[i] = -kInfinity;
    }
    if (bias) all.push_back(irregular({heads, keys + 2}, 6));
    return all;
  }
};

AttentionOptions options_of(Inputs in, const AttentionCase& item) {
  AttentionOptions options{
      .heads = item.heads, .dropout_p = item.p, .key_lengths = item.key_lengths};
  if (item.group > 1) options.key_value_heads = item.heads / item.group;
  if (!item.scores.empty()) options.bias = in[item.distances > 0 ? 5 : 3];
  if (item.distances > 0) options.relative = RelativeRows{in[3], in[4]};
  if (item.bias) options.distance_bias = in.back();
  return options;
}

Variable fused(Inputs in, const AttentionCase& item) {
  const AttentionOptions options = options_of(in, item);
  return item.causal ? causal_attention(in[0], in[1], in[2], options)
                     : attention(in[0], in[1], in[2], options);
}

// Arrays with an element for each query and key: the distance back to the key (0 for later keys and
// without causality), the row of this distance in the relative tables, and 1 if the query does not
// see the key.
struct Distances {
  Ids distance, row;
  Tensor is_unseen;

  explicit Distances(const AttentionCase& item)
      : distance(Ids::from_shape({item.queries, item.keys})),
        row(distance),
        is_unseen(empty({item.batch, 1, item.queries, item.keys})) {
    for (std::size_t i = 0; i < item.queries; ++i)
      for (std::size_t j = 0; j < item.keys; ++j) {
        const std::size_t position = i + item.keys - item.queries;
        const bool later = item.causal && j > position;
        const std::size_t back = later || !item.causal ? 0 : position - j;
        distance(i, j) = static_cast<std::int32_t>(back);
        row(i, j) =
            static_cast<std::int32_t>(item.distances - 1 - std::min(back, item.distances - 1));
        for (std::size_t b = 0; b < item.batch; ++b)
          is_unseen(b, 0, i, j) = later || (!item.key_lengths.empty() && j >= item.key_lengths[b]);
      }
  }
};

// Composes attention from basic ops. With relative rows, each query has its own keys and values
// [batch, heads, queries, keys, width], as in the definition.
Variable plain(Inputs in, const AttentionCase& item) {
  const Distances distances(item);
  const bool relative = item.distances > 0;
  const auto by_head = [&](const Variable& x) {
    const std::size_t length = x.shape()[1], heads = x.shape()[2] / item.width;
    const Variable own = transpose(reshape(x, {item.batch, length, heads, item.width}), 1, 2);
    if (heads == item.heads) return own;
    const Variable repeated = unsqueeze(own, 2) + x.tape().constant(zeros({item.group, 1, 1}));
    return reshape(repeated, {item.batch, item.heads, length, item.width});
  };
  const auto seen = [&](const Variable& x, const Variable& table) {
    return unsqueeze(by_head(x), 2) + embedding(table, distances.row);
  };
  const Variable q = by_head(in[0]);
  const Variable products = relative ? sum(unsqueeze(q, 3) * seen(in[1], in[3]), {-1})
                                     : matmul(q, transpose(by_head(in[1])));
  Variable scores = products / std::sqrt(static_cast<real>(item.width));
  if (item.bias)
    scores = scores + permute(embedding(transpose(in.back()), distances.distance), {2, 0, 1});
  if (!item.scores.empty()) scores = scores + in[relative ? 5 : 3];
  const Variable masked =
      masked_fill(scores, scores.tape().constant(distances.is_unseen), -kInfinity);
  const Variable weights = dropout(softmax(masked), item.p);
  const Variable mixed = relative ? sum(unsqueeze(weights, 4) * seen(in[2], in[4]), {3})
                                  : matmul(weights, by_head(in[2]));
  return reshape(transpose(mixed, 1, 2), in[0].shape());
}

// Bounds of the rounding differences between two ways of computing attention. Inputs are in (−1,
// 1), keys and values with relative rows below 2, and the upstream gradient below 1.5. The error of
// a sum of n products is at most n epsilon times the sum of their magnitudes.
struct Tolerance {
  double output;
  std::vector<double> gradients;

  explicit Tolerance(const AttentionCase& item) {
    const auto width = static_cast<double>(item.width);
    const auto keys = static_cast<double>(item.keys);
    const auto queries = static_cast<double>(item.queries);
    const auto batch = static_cast<double>(item.batch);
    const double most = item.distances > 0 ? 2 : 1;
    const double kept = item.p < 1 ? 1 / (1 - item.p) : 0;
    // A score is below most · (√width + 1). The relative error of the weights is the error of the
    // scores plus the errors of an exponential and a sum over the keys.
    const double of_score = most * (width + 3 + most) * (std::sqrt(width) + 1) * kEpsilon;
    const double of_weight = 2 * of_score + (12 + keys) * kEpsilon;
    output = most * kept * (of_weight + keys * kEpsilon);
    // The gradient of a score is its weight times the difference of two sums of `width` products.
    // The weights of all keys sum to 1.
    const double upstream = 1.5 * kept;
    const double of_scores =
        2 * most * upstream * width * (of_weight + 2 * (width + keys) * kEpsilon);
    const double of_q = most * of_scores / std::sqrt(width);
    const double score = most * most * upstream * std::sqrt(width);
    const auto sum = [&](double terms, double of_each, double each) {
      return terms * (of_each + terms * each * kEpsilon);
    };
    gradients = {of_q, sum(queries, of_q, score), sum(queries, upstream * of_weight, upstream)};
    if (item.distances > 0) {
      const double all = batch * static_cast<double>(item.heads) * queries;
      gradients.push_back(sum(all, of_q, score));
      gradients.push_back(sum(all, upstream * of_weight, upstream));
    }
    for (double& bound : gradients) bound *= static_cast<double>(item.group);
    if (!item.scores.empty()) {
      const double all = batch * static_cast<double>(item.heads) * queries * keys;
      gradients.push_back(all * (of_scores + all * kEpsilon));
    }
    if (item.bias) gradients.push_back(batch * queries * (of_scores + queries * kEpsilon));
  }
};

void expect_plain(const AttentionCase& item) {
  const std::vector<Tensor> inputs = item.inputs();
  const auto run = [&](const auto& op) {
    Random random(7);
    Tape tape(random, Tape::kInference);
    const Tensor value = op(inputs_on(tape, inputs), item).value();
    return std::pair(value, bits_of(random.state_dict()));
  };
  const Tolerance tolerance(item);
  const auto got = run(fused), expected = run(plain);
  expect_near(got.first, expected.first, tolerance.output, item.what());
  EXPECT_TRUE(got.second == expected.second) << item.what();  // the same random numbers were drawn
  const auto of_plain = gradients_of([&](Inputs in) { return plain(in, item); }, inputs);
  const auto of_fused = gradients_of([&](Inputs in) { return fused(in, item); }, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_near(of_fused[i].dense(), Gradient(of_plain[i]).take_dense(), tolerance.gradients[i],
                concat(item.what(), ", input ", i));
}

// Sizes around the kernel's boundaries of vectors, panels, tiles and blocks.
constexpr std::size_t kLengths[] = {1, 2, 31, 32, 33, 47, 48, 49, 63, 64, 65, 129};

TEST(CausalAttention, MatchesTheOpsItReplaces) {
  std::size_t turn = 0;
  for (const std::size_t length : kLengths)
    for (const std::size_t width : {1U, 3U, 8U, 64U, 80U}) {
      ++turn;
      expect_plain({turn % 3 + 1, (turn + turn / 3) % 3 + 1, length, length, width, turn % 2 == 0,
                    turn % 4 < 2 ? 0 : 0.3});
    }
}

TEST(Attention, MatchesTheOpsItReplacesWithABiasOrGroups) {
  std::size_t turn = 0;
  for (const std::size_t keys : kLengths)
    for (const std::size_t queries : {std::size_t{1}, std::size_t{33}, keys}) {
      ++turn;
      const bool causal = queries <= keys && turn % 2 == 0;
      const Shape shapes[] = {{keys},
                              {queries, keys},
                              {4, queries, keys},
                              {2, 4, queries, keys},
                              {2, 1, queries, keys},
                              {2, 1, 1, keys},
                              {4, 1, 1},
                              {queries, 1}};
      AttentionCase item{
          2, 4, queries, keys, 5, causal && turn % 3 == 0, turn % 5 == 0 ? 0.3 : 0, causal};
      item.scores = shapes[turn % std::size(shapes)];
      expect_plain(item);
      item.group = turn % 3 == 0 ? 4 : 2;
      expect_plain(item);
      item.scores = {};
      if (turn % 2 == 1) item.key_lengths = {keys, keys / 2 + 1};
      if (causal) item.distances = 9;
      expect_plain(item);
    }
  AttentionCase item{2, 2, 40, 40, 3, true, 0, true, {40, 9}, 7, {2, 40, 40}, 2};
  expect_plain(item);
  item.batch = 0;
  item.key_lengths = {};
  expect_plain(item);
}

TEST(Attention, HidesKeysByAMask) {
  const AttentionCase item{2, 2, 40, 50, 3, false, 0, false};
  const std::vector<Tensor> inputs = item.inputs();
  Tensor mask = zeros({2, 1, 40, 50}), bias = mask;
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t i = 0; i < 40; ++i)
      for (std::size_t j = 0; j < 50; ++j) {
        mask(b, 0, i, j) = i % 13 != 5 && (i + j * j + b) % 3 != 0;  // some queries see no key
        bias(b, 0, i, j) = mask(b, 0, i, j) != 0 ? 0 : -kInfinity;
      }
  const auto run = [&](bool masked) {
    Tape tape;
    const std::vector<Variable> in = inputs_on(tape, inputs);
    AttentionOptions options{.heads = 2};
    if (masked) options.mask = mask;
    if (!masked) options.bias = tape.constant(bias);
    const Variable y = attention(in[0], in[1], in[2], options);
    tape.backward(y, irregular(y.shape(), 9));
    std::vector<Tensor> all{y.value()};
    for (const Variable& x : in) all.push_back(tape.gradient(x).dense());
    return all;
  };
  const std::vector<Tensor> results = run(true);
  EXPECT_EQ(results, run(false));
  for (const Tensor& result : results)
    for (const real value : result) ASSERT_TRUE(std::isfinite(value));
  for (const std::size_t i : {5U, 18U, 31U})
    for (std::size_t column = 0; column < 6; ++column) {
      EXPECT_EQ(results[0](1, i, column), 0);
      EXPECT_EQ(results[1](1, i, column), 0);
    }
}

TEST(CausalAttention, ReadsGroupedKeysFromACache) {
  const AttentionCase item{1, 4, 9, 9, 3, true, 0, true, {}, 0, {9}, 2};
  Tape tape(Tape::kInference);
  const std::vector<Variable> in = inputs_on(tape, item.inputs());
  AttentionOptions options = options_of(in, item);
  const Tensor all = fused(in, item).value();
  KeyValueCache cache(9, 6);
  cache.make_room(9);
  for (const auto& [first, end] : {std::pair(0, 4), std::pair(4, 5), std::pair(5, 9)}) {
    options.bias = slice(in[3], 0, 0, end);
    const auto next = [&, from = first, to = end](const Variable& x) {
      return slice(x, 1, from, to);
    };
    expect_near(causal_attention(next(in[0]), next(in[1]), next(in[2]), options, &cache).value(),
                slice(tape.constant(all), 1, first, end).value(), 8 * kEpsilon, concat(first));
  }
}

TEST(CausalAttention, AcceptsFewerQueriesThanKeys) {
  for (const std::size_t keys : {1U, 5U, 33U, 64U, 130U})
    for (const std::size_t queries : {1U, 4U, 33U, 100U}) {
      if (queries > keys) continue;
      for (const bool bias : {false, true})
        expect_plain({2, 2, queries, keys, 5, bias, bias ? 0.2 : 0});
      for (const std::size_t distances : {1U, 4U, 40U, 80U})
        for (const std::size_t width : {5U, 40U})
          expect_plain({2, 2, queries, keys, width, width > 5, 0.2, true, {}, distances});
    }
  expect_plain({1, 1, 6, 6, 3, false, 1});  // drops all weights
  for (const std::size_t batch : {2U, 0U})
    for (const std::size_t keys : {0U, 5U}) expect_plain({batch, 2, 0, keys, 3, true, 0.5});
  expect_plain({0, 2, 4, 4, 3, true, 0.5});
}

TEST(Attention, MatchesTheOpsItReplaces) {
  std::size_t turn = 0;
  for (const std::size_t keys : kLengths)
    for (const std::size_t queries : {1U, 33U, 100U}) {
      ++turn;
      const double p = turn % 3 == 0 ? 0.3 : 0;
      expect_plain({2, turn % 2 + 1, queries, keys, 5, false, p, false});
      expect_plain({2, 2, queries, keys, 3, false, p, false, {keys, keys / 2 + 1}});
      if (queries <= keys)
        expect_plain({2, 2, queries, keys, 3, true, p, true, {keys / 2 + 1, keys}});
    }
}

TEST(Attention, IgnoresPadding) {
  const std::vector<std::size_t> lengths{1, 33, 97, 130};
  for (const bool causal : {false, true}) {
    const AttentionCase item{lengths.size(), 2, 130, 130, 5, causal, 0, causal, lengths};
    std::vector<Tensor> inputs = item.inputs();
    const auto run = [&] {
      Tape tape;
      const std::vector<Variable> in = inputs_on(tape, inputs);
      const Variable y = fused(in, item);
      tape.backward(y, irregular(y.shape(), 9));
      std::vector<Tensor> results{y.value()};
      for (const Variable& input : in) results.push_back(tape.gradient(input).dense());
      return results;
    };
    const std::vector<Tensor> expected = run();
    for (const std::size_t i : {1U, 2U})
      for (std::size_t b = 0; b < lengths.size(); ++b)
        for (std::size_t key = lengths[b]; key < 130; ++key)
          for (std::size_t column = 0; column < 10; ++column) {
            inputs[i](b, key, column) = kNaN;
            ASSERT_EQ(expected[i + 1](b, key, column), 0) << b << ' ' << key;
          }
    EXPECT_EQ(run(), expected) << item.what();
    for (std::size_t b = 0; b < lengths.size(); ++b) {  // each sequence alone gives the same bits
      const std::size_t queries = causal ? lengths[b] : 130;
      Tape tape(Tape::kInference);
      const auto sequence = [&](const Variable& x, std::size_t length) {
        return slice(slice(x, 0, b, b + 1), 1, 0, length);
      };
      std::vector<Variable> in = inputs_on(tape, inputs);
      for (const std::size_t i : {0U, 1U, 2U})
        in[i] = sequence(in[i], i == 0 ? queries : lengths[b]);
      const AttentionCase alone{1, 2, queries, lengths[b], 5, causal, 0, causal};
      EXPECT_EQ(fused(in, alone).value(), sequence(tape.constant(expected[0]), queries).value())
          << b;
    }
  }
}

TEST(CausalAttention, GivesTheLastQueriesTheSameBitsAlone) {
  for (const AttentionCase& item : {AttentionCase{2, 3, 130, 130, 20, true},
                                    AttentionCase{2, 3, 130, 130, 20, false, 0, true, {}, 17}}) {
    Tape tape(Tape::kInference);
    const std::vector<Variable> in = inputs_on(tape, item.inputs());
    const Variable all = fused(in, item);
    for (const std::ptrdiff_t count : {1, 2, 13, 64, 129})
      EXPECT_EQ(
          causal_attention(slice(in[0], 1, -count), in[1], in[2], options_of(in, item)).value(),
          slice(all, 1, -count).value())
          << item.what() << count;
  }
}

TEST(CausalAttention, DoesNotOverflowAndAcceptsExcludedKeys) {
  const real never = -kInfinity;
  const AttentionCase item{2, 2, 70, 70, 4, true};
  std::vector<Tensor> inputs = item.inputs();
  inputs[0] = Tensor(inputs[0] * real{100});  // scores up to 20,000
  inputs[1] = Tensor(inputs[1] * real{100});
  for (std::size_t distance = 5; distance < 72; ++distance) inputs[3](1, distance) = never;
  const auto gradients = gradients_of([&](Inputs in) { return fused(in, item); }, inputs);
  for (const Gradient& gradient : gradients)
    for (const real value : gradient.dense()) ASSERT_TRUE(std::isfinite(value));
  for (std::size_t distance = 5; distance < 72; ++distance)
    EXPECT_EQ(gradients[3].dense()(1, distance), 0);
}

TEST(CausalAttention, IsAccurateForLargeScoresThatDifferLittle) {
  // 1 / √width and the scores are exact in binary. Both scores are near 2^14, and their difference
  // of 1/8 must not lose accuracy.
  Tape tape;
  const Variable q = tape.input(tensor({1, 1, 4}, {256, 1, 0, 0}));
  const Variable k = tape.input(tensor({1, 2, 4}, {128, 0, 0, 0, 128, 0.25, 0, 0}));
  const Variable v = tape.input(tensor({1, 2, 4}, {0, 0, 0, 0, 1, 0, 0, 0}));
  const Variable y = causal_attention(q, k, v, {.heads = 1});
  const double weight = 1 / (1 + std::exp(-0.125));
  EXPECT_NEAR(y.value()(0, 0, 0), weight, 4 * kEpsilon);
  tape.backward(y, tensor({1, 1, 4}, {1, 0, 0, 0}));
  EXPECT_NEAR(tape.gradient(v).dense()(0, 1, 0), weight, 4 * kEpsilon);
  EXPECT_NEAR(tape.gradient(q).dense()(0, 0, 1), weight * (1 - weight) / 8, kEpsilon);
}

TEST(CausalAttention, PropagatesNaNToTheQueriesThatSeeIt) {
  const AttentionCase item{1, 1, 40, 40, 3};
  for (const std::size_t input : {1U, 2U}) {
    std::vector<Tensor> inputs = item.inputs();
    inputs[input](0, 33, 1) = kNaN;
    Tape tape(Tape::kInference);
    const Tensor y = fused(inputs_on(tape, inputs), item).value();
    for (std::size_t t = 33; t < 40; ++t) EXPECT_TRUE(std::isnan(y(0, t, 1))) << t;
    // Earlier queries do not see a score that is NaN.
    for (std::size_t t = 0; t < 33 && input == 1; ++t) EXPECT_FALSE(std::isnan(y(0, t, 1))) << t;
  }
}

TEST(CausalAttention, StoresNoWeightsAndNothingInInference) {
#if defined(ROWGRAD_ADDRESS_SANITIZER)
  GTEST_SKIP() << "the pool keeps nothing under AddressSanitizer";
#endif
  const auto in_use = [] { return BufferPool::statistics().bytes_in_use; };
  Tape inference(Tape::kInference);
  const Variable text = inference.constant(irregular({1, 2048, 4}));
  const std::size_t before_text = in_use();
  BufferPool::release_idle();
  causal_attention(text, text, text, {.heads = 4});
  EXPECT_LE(in_use() - before_text, 2048U * 4 * sizeof(real));
  causal_attention(text, text, text, {.heads = 4, .mask = full({2048}, 1)});
  // Temporary memory does not hold length × length values either.
  EXPECT_LT(BufferPool::statistics().bytes_idle, 2048U * 2048 * sizeof(real) / 2);

  const auto kept = [&](bool relative) {
    Tape tape;
    const Variable x = tape.input(irregular({1, 512, 8}));
    const Variable rows = tape.input(irregular({65, 4}));
    AttentionOptions options{.heads = 2};
    if (relative) options.relative = {rows, rows};
    const std::size_t before = in_use();
    causal_attention(x, x, x, options);
    return in_use() - before;
  };
  EXPECT_EQ(kept(true), kept(false));
}

TEST(AttentionWeights, ReproduceTheOutput) {
  for (const AttentionCase& item : {AttentionCase{2, 3, 5, 7, 4, true, 0, true, {7, 4}},
                                    AttentionCase{2, 3, 5, 7, 4, true, 0, true, {}, 3}}) {
    Tape tape;
    std::vector<Variable> in = inputs_on(tape, item.inputs());
    if (item.distances > 0) in[4] = tape.constant(zeros({3, 4}));
    const Tensor weights = attention_weights(in[0], in[1], options_of(in, item));
    ASSERT_EQ(weights.shape(), Shape({2, 3, 5, 7}));
    const Distances distances(item);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const Index index = index_at(weights.shape(), k);
      EXPECT_EQ(weights.data()[k] == 0, distances.is_unseen(index[0], 0, index[2], index[3]) != 0);
    }
    const Variable of_queries = tape.constant(weights);
    expect_near(sum(of_queries, {3}).value(), full({2, 3, 5}, 1), 7 * kEpsilon);
    const Variable values = transpose(reshape(in[2], {2, 7, 3, 4}), 1, 2);
    const Variable mixed = reshape(transpose(matmul(of_queries, values), 1, 2), {2, 5, 12});
    expect_near(fused(in, item).value(), mixed.value(), Tolerance(item).output);
  }
}

TEST(AttentionWeights, AcceptAMaskAndGroups) {
  AttentionCase item{2, 3, 5, 7, 4};
  item.group = 3;
  Tape tape;
  const std::vector<Variable> in = inputs_on(tape, item.inputs());
  AttentionOptions options = options_of(in, item);
  options.mask = full({5, 7}, 1);
  for (std::size_t key = 0; key < 7; ++key) (*options.mask)(3, key) = 0;
  const Tensor weights = attention_weights(in[0], in[1], options);
  for (std::size_t key = 0; key < 7; ++key) EXPECT_EQ(weights(1, 2, 3, key), 0);
  const Variable mixed = matmul(tape.constant(weights), unsqueeze(in[2], 1));
  expect_near(causal_attention(in[0], in[1], in[2], options).value(),
              reshape(transpose(mixed, 1, 2), {2, 5, 12}).value(), Tolerance(item).output);
}

}  // namespace
