#include "tests/test.hpp"

namespace {

// Ids and tensors do not convert to each other, and numbers do not convert to ids.
static_assert(!std::is_constructible_v<Ids, Tensor> && !std::is_constructible_v<Tensor, Ids>);
static_assert(!std::is_assignable_v<Ids&, Tensor> && !std::is_assignable_v<Tensor&, Ids>);
static_assert(!std::is_convertible_v<int, Ids>);
// Braces hold ids; shapes do not convert to ids.
static_assert(!std::is_constructible_v<Ids, Shape> && !std::is_convertible_v<Shape, Ids>);
static_assert(!std::is_constructible_v<Ids, std::size_t, std::size_t>);
template <class Range>
concept IsTakenForIds = requires(const Range& range) {
  to_ids(range);
};
static_assert(IsTakenForIds<Ids32> && IsTakenForIds<std::vector<double>>);
static_assert(!IsTakenForIds<Tensor> && !IsTakenForIds<std::vector<std::string>>);

// True if braces in parentheses compile. Readers would take the braces for a shape.
template <class Array>
constexpr bool kTakesBracesInParentheses = requires {
  Array({64, 6});
}
|| requires(std::size_t n) { Array({n, n}); }
|| requires { Array({{64, 6}}); }
|| requires { Array({64}); }
|| requires { Array({}); };
static_assert(!kTakesBracesInParentheses<Ids> && kTakesBracesInParentheses<Ids::Array>);

TEST(Ids, BracesHoldIdsRatherThanAShape) {
  EXPECT_EQ((Ids{64, 6}).shape(), (Shape{2}));
  EXPECT_EQ((Ids{{64, 6}}).shape(), (Shape{1, 2}));
  const Ids zeros = Ids::from_shape({64, 6});
  EXPECT_EQ(zeros.shape(), (Shape{64, 6}));
  EXPECT_TRUE(std::ranges::all_of(zeros, [](std::int32_t id) { return id == 0; }));
}

TEST(Ids, BracesRequireRowsOfEqualLength) {
  EXPECT_INVALID("Ids: a row has 3 ids, expected 1, as in the first row", (Ids{{1}, {2, 3, 4}}));
  EXPECT_INVALID("Ids: a row has 1 ids, expected 2, as in the first row", (Ids{{1, 2}, {3}}));
  EXPECT_INVALID("Ids: a row has 2 ids, expected 0, as in the first row", (Ids{{}, {1, 2}}));
}

TEST(Ids, AreEmptyByDefault) {
  EXPECT_EQ(Ids().shape(), (Shape{0}));
  EXPECT_EQ(Ids{}, to_ids(Ids32{}));
  EXPECT_EQ(concat(Ids()), "{}");
}

TEST(Ids, RejectShapesTooLargeForMemory) {
  constexpr std::size_t kHuge = std::size_t{1} << 33;
  for (const Shape& shape : {Shape{kHuge, kHuge}, Shape{kHuge, 0, kHuge}, Shape{~std::size_t{0}}}) {
    const std::string rest =
        concat(": shape ", bracketed(shape), " has more elements than memory could ever hold");
    EXPECT_INVALID("Ids::from_shape" + rest, Ids::from_shape(shape));
    EXPECT_INVALID("Ids::reshape" + rest, Ids().reshape(shape));
  }
  EXPECT_INVALID("Ids::reshape: cannot reshape 3 ids to shape [2, 2]",
                 (Ids{1, 2, 3}).reshape({2, 2}));
}

TEST(ToIds, RejectsNumbersThatAreNotIds) {
  constexpr std::int64_t k31 = std::int64_t{1} << 31;
  const auto expect_refused = [](const auto& numbers, std::size_t index) {
    EXPECT_INVALID(concat("to_ids: element ", index, " is ", numbers[index],
                          ", expected an integer from -2^31 to 2^31 - 1"),
                   to_ids(numbers));
  };
  expect_refused(std::vector<std::int64_t>{0, (k31 << 1) + 5}, 1);
  expect_refused(std::vector<std::int64_t>{k31}, 0);
  expect_refused(std::vector<std::int64_t>{1, 2, -k31 - 1}, 2);
  expect_refused(std::vector<std::size_t>{~std::size_t{0}}, 0);  // −1 as a size
  expect_refused(std::vector<std::uint32_t>{3, 4'000'000'000}, 1);
  expect_refused(std::vector<double>{1, 1.9}, 1);
  expect_refused(std::vector<double>{std::nan("")}, 0);
  expect_refused(std::vector<double>{0x1p31}, 0);
  expect_refused(std::vector<float>{0, -HUGE_VALF}, 1);
  EXPECT_EQ(to_ids(std::vector<std::int64_t>{k31 - 1, -k31, -100}),
            (Ids{2147483647, -2147483647 - 1, -100}));
  EXPECT_EQ(to_ids(std::vector<double>{3, -0.0, -0x1p31}), (Ids{3, 0, -2147483647 - 1}));
  EXPECT_EQ(to_ids(std::vector<std::uint8_t>{255}), Ids{255});
  EXPECT_EQ(to_ids(std::u32string(1, U'ж')), Ids{0x436});
}

TEST(Ids, PrintAsIntegers) {
  EXPECT_EQ(concat(Ids{29, 20}), "{29, 20}");
  EXPECT_EQ(concat(Ids{{16777217, 3}, {-100, 5}}),
            "{{ 16777217,         3},\n {     -100,         5}}");
}

TEST(Ids, CanHaveAnyRank) {
  Ids ids = to_ids(Ids32{1, 2, 3, 4, 5, 6});
  ids.reshape({2, 3});
  EXPECT_EQ(ids, (Ids{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_NE(ids, (Ids{1, 2, 3, 4, 5, 6}));
  ids(1, 0) = 7;
  ids[5] = 8;
  EXPECT_EQ(ids.array(), (Ids::Array{{1, 2, 3}, {7, 5, 8}}));
  EXPECT_EQ(Ids(ids.array()), ids);
  EXPECT_EQ(Ids::from_shape({}).size(), 1U);
}

}  // namespace
