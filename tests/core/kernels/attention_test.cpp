#include "tests/test.hpp"
#include <rowgrad/core/kernels/attention.hpp>

namespace rowgrad::kernels {
namespace {

// A call with everything that it can have, and the memory that it works on: rows and batches with
// gaps of `gap` values between them, where nothing may be written.
struct Memory {
  static constexpr std::size_t kBatch = 2, kHeads = 3, kWidth = 5, kQueries = 37, kKeys = 45;
  static constexpr std::size_t kDistances = 50, kRelative = 7;
  static constexpr real kUntouched = 12345;

  std::size_t gap;
  std::vector<std::size_t> key_lengths;
  std::size_t row = kHeads * kWidth + gap;
  std::size_t batch = kKeys * row + gap;
  Tensor q = spread(1), k = spread(2), v = spread(3), upstream = spread(4);
  Tensor output = untouched(), dq = untouched(), dk = untouched(), dv = untouched();
  Tensor bias = irregular({kHeads, kDistances}, 5), dbias = full(bias.shape(), kUntouched);
  Tensor relative_keys = irregular({kRelative, kWidth}, 6);
  Tensor relative_values = irregular({kRelative, kWidth}, 7);
  Tensor drelative_keys = full(relative_keys.shape(), kUntouched),
         drelative_values = drelative_keys;
  DropoutMask mask = drawn();
  SoftmaxRows softmax{empty({kBatch, kHeads, kQueries}), empty({kBatch, kHeads, kQueries})};

  explicit Memory(std::size_t gap_, std::vector<std::size_t> lengths = {})
      : gap(gap_), key_lengths(std::move(lengths)) {}

  // The same numbers for any gap, with the gaps untouched.
  Tensor spread(int seed) const {
    const Tensor numbers = irregular({kBatch, kKeys, kHeads * kWidth}, seed);
    Tensor result = untouched();
    for (std::size_t b = 0; b < kBatch; ++b)
      for (std::size_t i = 0; i < kKeys; ++i)
        for (std::size_t c = 0; c < kHeads * kWidth; ++c)
          result.data()[b * batch + i * row + c] = numbers(b, i, c);
    return result;
  }
  Tensor untouched() const { return full({kBatch * batch}, kUntouched); }
  static DropoutMask drawn() {
    Random random(1);
    return draw_dropout_mask(random, kBatch * kHeads * kQueries * kKeys, 0.25);
  }

  template <class Number, class Source>
  HeadRows<Number> rows(Source& x) const {
    return {x.data(), row, batch};
  }
  Attention attention() const {
    return {.batch = kBatch,
            .heads = kHeads,
            .width = kWidth,
            .queries = kQueries,
            .keys = kKeys,
            .distances = kDistances,
            .relative_distances = kRelative,
            .key_lengths = key_lengths,
            .mask = mask,
            .mask_factor = static_cast<real>(1 / 0.75),
            .inputs = {.q = rows<const real>(q),
                       .k = rows<const real>(k),
                       .v = rows<const real>(v),
                       .distance_bias = bias.data(),
                       .relative_keys = relative_keys.data(),
                       .relative_values = relative_values.data()}};
  }
  void run() {
    attention_forward(attention(), rows<real>(output), &softmax);
    attention_backward(attention(), softmax, rows<const real>(output), rows<const real>(upstream),
                       {.q = rows<real>(dq),
                        .k = rows<real>(dk),
                        .v = rows<real>(dv),
                        .distance_bias = dbias.data(),
                        .relative_keys = drelative_keys.data(),
                        .relative_values = drelative_values.data()});
  }

  // Expects x to have the numbers of the first `length` rows of other, which has no gaps, and
  // nothing else written.
  void expect_rows_of(const Tensor& x, const Tensor& other, std::size_t length,
                      const char* what) const {
    constexpr std::size_t kRow = kHeads * kWidth;
    Tensor expected = untouched();
    for (std::size_t b = 0; b < kBatch; ++b)
      for (std::size_t i = 0; i < length; ++i)
        for (std::size_t c = 0; c < kRow; ++c)
          expected.data()[b * batch + i * row + c] = other.data()[(b * kKeys + i) * kRow + c];
    EXPECT_EQ(x, expected) << what;
  }
};

TEST(CausalAttentionKernel, TakesRowsOfLongerRowsAndWritesNothingBetweenThem) {
  for (const std::size_t gap : {1U, 15U, 33U}) {
    const std::vector<std::size_t> lengths =
        gap == 15 ? std::vector<std::size_t>{20, Memory::kKeys} : std::vector<std::size_t>{};
    Memory dense(0, lengths);
    dense.run();
    Memory spread(gap, lengths);
    spread.run();
    spread.expect_rows_of(spread.output, dense.output, Memory::kQueries, "output");
    spread.expect_rows_of(spread.dq, dense.dq, Memory::kQueries, "q");
    spread.expect_rows_of(spread.dk, dense.dk, Memory::kKeys, "k");
    spread.expect_rows_of(spread.dv, dense.dv, Memory::kKeys, "v");
    EXPECT_EQ(spread.dbias, dense.dbias);
    EXPECT_EQ(spread.drelative_keys, dense.drelative_keys);
    EXPECT_EQ(spread.drelative_values, dense.drelative_values);
  }
}

TEST(CausalAttentionKernel, GivesDistancesThatNeverOccurNoGradient) {
  Memory memory(0);
  memory.run();
  for (std::size_t head = 0; head < Memory::kHeads; ++head)
    for (std::size_t distance = 0; distance < Memory::kDistances; ++distance)
      EXPECT_EQ(memory.dbias(head, distance) == 0, distance >= Memory::kKeys) << distance;
}

}  // namespace
}  // namespace rowgrad::kernels
