#include "tests/test.hpp"

namespace {

template <class Made>
class TableLayers : public ::testing::Test {
 public:
  static constexpr bool kBags = std::is_same_v<Made, EmbeddingBag>;
  static constexpr const char* kName = kBags ? "EmbeddingBag" : "Embedding";

  // Returns the rows, or the means of pairs of rows.
  static Variable look_up(Made& layer, Tape& tape, const std::vector<std::int32_t>& indices) {
    if constexpr (kBags)
      return layer.forward(tape, {ids({indices.size() / 2, 2}, indices)});
    else
      return layer.forward(tape, to_ids(indices));
  }
};
using BothLayers = ::testing::Types<Embedding, EmbeddingBag>;
TYPED_TEST_SUITE(TableLayers, BothLayers);

using Padding = std::optional<std::int32_t>;

TYPED_TEST(TableLayers, StartNormalWithZeroPaddingRow) {
  for (const double init_std : {1.0, 0.5, 0.0})
    for (const Padding padding : {Padding(), Padding(0), Padding(2), Padding(-1)}) {
      Random random(123), same(123);
      const TypeParam layer(6, 3, random, {.init_std = init_std, .padding_idx = padding});
      Tensor expected = init_std == 0 ? zeros({6, 3}) : same.normal({6, 3}, 0, init_std);
      if (padding) std::fill_n(expected.data() + (*padding + 6) % 6 * 3, 3, real{0});
      EXPECT_EQ(layer.weight.value(), expected);
      EXPECT_EQ(random.bits(), same.bits());  // with init_std 0, nothing was drawn
    }
}

TYPED_TEST(TableLayers, KeepGivenTableAndSupportDenseGradientsAndFreezing) {
  const Tensor table = counting({4, 2});
  TypeParam dense(table, {.padding_idx = -3, .dense_gradient = true});
  TypeParam frozen(table, {.padding_idx = -3, .frozen = true});
  Tape tape, other;
  EXPECT_FALSE(TestFixture::look_up(frozen, other, {1, 2}).needs_gradient());
  tape.backward(sum(TestFixture::look_up(dense, tape, {2, 1, 2, 1})));
  EXPECT_EQ(dense.weight.gradient().dense(), tensor({4, 2}, {0, 0, 0, 0, 2, 2, 0, 0}));
  EXPECT_EQ(dense.weight.value(), table);
  EXPECT_EQ(frozen.weight.value(), table);
}

TYPED_TEST(TableLayers, RejectInvalidTablesAndPaddingOutOfRange) {
  Random random(1);
  const std::string name = TestFixture::kName;
  EXPECT_THROW(TypeParam(0, 3, random), std::invalid_argument);
  EXPECT_THROW(TypeParam(3, 0, random), std::invalid_argument);
  EXPECT_THROW(TypeParam(zeros({3})), std::invalid_argument);
  const std::string padding = name + ": padding_idx 3 is out of range: the table has 3 rows";
  EXPECT_INVALID(padding, TypeParam(3, 2, random, {.padding_idx = 3}));
  EXPECT_INVALID(padding, TypeParam(zeros({3, 2}), {.padding_idx = 3}));
  EXPECT_INVALID(name + ": padding_idx -4 is out of range: the table has 3 rows",
                 TypeParam(3, 2, random, {.padding_idx = -4}));
  for (const double init_std : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_INVALID(concat(name, ": init_std is ", init_std, ", expected a finite number >= 0"),
                   TypeParam(3, 4, random, {.init_std = init_std}));
}

TEST(Embedding, LooksUpSingleIdAndScalesBySqrtWidth) {
  const Tensor table = counting({5, 4});
  Embedding embedding(table), scaled(table, {.scale_by_sqrt_width = true});
  Tape tape;
  EXPECT_EQ(embedding.forward(tape, 4).value(), tensor({4}, {17, 18, 19, 20}));
  EXPECT_EQ(scaled.forward(tape, 1).value(), tensor({4}, {10, 12, 14, 16}));
  EXPECT_THROW(embedding.forward(tape, -1), std::invalid_argument);
}

TEST(EmbeddingBag, AveragesByDefault) {
  const Tensor table = tensor({3, 2}, {1, 6, 3, 2, 8, 8});
  EmbeddingBag mean(table);
  EmbeddingBag sum(table, {.mode = BagMode::kSum, .include_last_offset = true});
  EmbeddingBag max(table, {.mode = BagMode::kMax, .padding_idx = -1});
  EmbeddingBag scaled(counting({2, 4}), {.scale_by_sqrt_width = true});
  const Ids all = ids({3}, {0, 1, 2}), pair = ids({1, 2}, {0, 1});
  Tape tape;
  EXPECT_EQ(mean.forward(tape, {pair}).value(), tensor({1, 2}, {2, 4}));
  EXPECT_EQ(sum.forward(tape, {all, ids({3}, {0, 2, 3})}).value(), tensor({2, 2}, {4, 8, 8, 8}));
  EXPECT_EQ(max.forward(tape, {all, ids({1}, {0})}).value(), tensor({1, 2}, {3, 6}));
  EXPECT_EQ(scaled.forward(tape, {pair}).value(), tensor({1, 4}, {6, 8, 10, 12}));
  EXPECT_INVALID("EmbeddingBag: scale_grad_by_freq is set with mode max, expected mode sum or mean",
                 EmbeddingBag(table, {.mode = BagMode::kMax, .scale_grad_by_freq = true}));
}

}  // namespace
