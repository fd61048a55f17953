#include "tests/test.hpp"

namespace {

constexpr real kNan = std::numeric_limits<real>::quiet_NaN();

std::vector<std::int32_t> rows_of(const std::vector<Neighbour>& neighbours) {
  std::vector<std::int32_t> rows;
  for (const Neighbour& neighbour : neighbours) rows.push_back(neighbour.row);
  return rows;
}

using Rows = std::vector<std::int32_t>;

TEST(Nearest, OrdersRowsByCosineAndThenByRow) {
  const Tensor table{{1, 0}, {2, 2}, {0, 3}, {4, 4}, {-1, 0}, {0, 0}};
  EXPECT_EQ(rows_of(nearest(table, 3, 6)), (Rows{1, 0, 2, 5, 4}));
  EXPECT_EQ(rows_of(nearest(table, Tensor{1, 1}, 3)), (Rows{1, 3, 0}));
  EXPECT_EQ(rows_of(nearest(table, 0, 0)), Rows());
  EXPECT_EQ(nearest(table, 0, std::numeric_limits<std::size_t>::max()).size(), 5U);
  const std::vector<Neighbour> of_first = nearest(table, 0, 9);
  const std::vector<double> cosines{std::sqrt(0.5), std::sqrt(0.5), 0, 0, -1};
  EXPECT_EQ(rows_of(of_first), (Rows{1, 3, 2, 5, 4}));
  for (std::size_t i = 0; i < cosines.size(); ++i)
    EXPECT_NEAR(of_first[i].cosine, cosines[i], kEpsilon);
}

TEST(Nearest, LeavesOutRowsThatAreNotFinite) {
  const real inf = std::numeric_limits<real>::infinity();
  const Tensor table{{1, 0}, {kNan, 1}, {inf, 1}, {0x1p100F, 0x1p100F}, {0x1p-100F, 0x1p-100F}};
  EXPECT_EQ(rows_of(nearest(table, 0, 9)), (Rows{3, 4}));
  EXPECT_NEAR(nearest(table, 3, 1).at(0).cosine, 1, kEpsilon);
}

TEST(Nearest, EqualsTheCosinesOfALoop) {
  Random random(1);
  const std::size_t rows = 3000, width = 37;
  const Tensor table = random.normal({rows, width}), vector = random.normal({width});
  const std::vector<Neighbour> best = nearest(table, vector, rows);
  ASSERT_EQ(best.size(), rows);
  for (std::size_t i = 0; i < rows; ++i) {
    double product = 0, squares = 0, of_vector = 0;
    for (std::size_t k = 0; k < width; ++k) {
      const double x = table(best[i].row, k), y = vector(k);
      product += x * y;
      squares += x * x;
      of_vector += y * y;
    }
    EXPECT_NEAR(best[i].cosine, product / std::sqrt(squares * of_vector), 4 * kEpsilon);
    EXPECT_TRUE(i == 0 || best[i].cosine <= best[i - 1].cosine);
  }
}

TEST(Nearest, ReadsUpToDateRows) {
  Random random(1);
  Embedding words(40, 6, random);
  SGD sgd({&words.weight}, {.learning_rate = 0.1, .weight_decay = 0.3});
  for (const std::int32_t id : {3, 5, 3}) {
    sgd.zero_grad();
    Tape tape;
    tape.backward(sum(words.forward(tape, Ids{id})));
    sgd.step();
  }
  EXPECT_NE(words.weight.deferred(), nullptr);
  const auto expected = nearest(words.weight.copy(), 3, 5);
  const auto found = nearest(words.weight, 3, 5);
  EXPECT_EQ(rows_of(found), rows_of(expected));
  EXPECT_EQ(found[4].cosine, expected[4].cosine);
  EXPECT_EQ(nearest(words.weight, Tensor{1, 1, 1, 1, 1, 1}, 2).size(), 2U);
}

TEST(Nearest, FindsRowsOfASavedTable) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  StateDict saved;
  saved.put("model.input.weight", Tensor{{1, 0}, {0, 1}, {1, 1}});
  write_safetensors(path, saved);
  // [pretrained]
  const StateDict file = read_safetensors(path);
  Embedding words(std::get<Tensor>(file.at("model.input.weight")), {.frozen = true});
  // [pretrained]
  EXPECT_FALSE(words.weight.trainable());
  EXPECT_EQ(rows_of(nearest(words.weight, 1, 2)), (Rows{2, 0}));
}

TEST(Nearest, RefusesWrongArguments) {
  const Tensor table{{1, 0}, {0, 0}, {kNan, 0}};
  EXPECT_INVALID("nearest: row 3 is out of range: the table has 3 rows", nearest(table, 3, 1));
  EXPECT_INVALID("nearest: row -1 is out of range: the table has 3 rows", nearest(table, -1, 1));
  EXPECT_INVALID("nearest: the vector has shape [3], expected [2]",
                 nearest(table, Tensor{1, 2, 3}, 1));
  EXPECT_INVALID("nearest: the vector has length 0, expected a finite length above 0",
                 nearest(table, 1, 1));
  EXPECT_INVALID("nearest: the vector has length nan, expected a finite length above 0",
                 nearest(table, 2, 1));
  EXPECT_INVALID("nearest: the table has shape [2], expected [rows, width]",
                 nearest(Tensor{1, 2}, 0, 1));
}

}  // namespace
