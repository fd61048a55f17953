#include "tests/test.hpp"

namespace {

// Neither is taken for the other, nor a number for ids.
static_assert(!std::is_constructible_v<Ids, Tensor> && !std::is_constructible_v<Tensor, Ids>);
static_assert(!std::is_assignable_v<Ids&, Tensor> && !std::is_assignable_v<Tensor&, Ids>);
static_assert(!std::is_convertible_v<int, Ids>);

TEST(Ids, PrintAsTheWholeNumbersThatTheyAre) {
  EXPECT_EQ(concat(Ids{29, 20}), "{29, 20}");
  EXPECT_EQ(concat(Ids{{16777217, 3}, {-100, 5}}),
            "{{ 16777217,         3},\n {     -100,         5}}");
}

TEST(Ids, AreAnArrayOfAnyRank) {
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
