#include "tests/test.hpp"

namespace {

Batch three_rows() {
  return {.ids = {ids({3}, {7, 8, 9}), ids({3, 2}, {1, 2, 3, 4, 5, 6})},
          .tensors = {reshaped(Tensor{0.5, 1.5, 2.5}, {3, 1})},
          .bags = {{ids({4}, {4, 5, 6, 7}), ids({3}, {0, 3, 3})}}};
}

TEST(Batch, CountsAndSelectsRows) {
  const Batch all = three_rows();
  EXPECT_EQ(all.rows(), 3U);
  EXPECT_EQ(&all.inputs(), &all.ids[0]);
  EXPECT_EQ(&all.targets(), &all.ids[1]);
  const std::vector<std::int64_t> indices{2, 0, 2};
  const Batch some = all.select(indices);
  EXPECT_EQ(some.ids[0], ids({3}, {9, 7, 9}));
  EXPECT_EQ(some.ids[1], ids({3, 2}, {5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(some.tensors[0], reshaped(Tensor{2.5, 0.5, 2.5}, {3, 1}));
  EXPECT_EQ(some.bags[0].ids, ids({5}, {7, 4, 5, 6, 7}));
  EXPECT_EQ(some.bags[0].offsets, ids({3}, {0, 1, 4}));
  EXPECT_EQ(all.select({}).ids[1].shape(), (Shape{0, 2}));
  EXPECT_EQ(all.select({}).bags[0].ids.size(), 0U);
  EXPECT_EQ(all.select({}).select({}).rows(), 0U);
  for (const std::int64_t outside : {-1, 3})
    EXPECT_INVALID(concat("Batch: row ", outside, " is out of range: the batch has 3 rows"),
                   all.select(std::vector{std::int64_t{0}, outside}));
}

TEST(Batch, RejectsMoreIdsThanOffsetsCanIndex) {
  const Batch one{.bags = {{Ids::from_shape({65536}), Ids{0}}}};
  EXPECT_INVALID("Batch: bags have 2147483648 ids, expected at most 2147483647",
                 one.select(std::vector<std::int64_t>(32768, 0)));
}

TEST(Datasets, RejectInconsistentArrays) {
  const std::string hint = "; ids of different lengths per row belong in Batch::bags";
  const std::vector<std::pair<Batch, std::string>> cases = {
      {{}, "Batch: there are no arrays, expected at least one"},
      {{.ids = {ids({3}, {1, 2, 3}), ids({2}, {1, 2})}},
       "Batch: an array has shape [2], expected 3 rows" + hint},
      {{.ids = {ids({3}, {1, 2, 3})}, .tensors = {Tensor{1}}},
       "Batch: an array has shape [1], expected 3 rows" + hint},
      {{.ids = {ids({3}, {1, 2, 3})}, .bags = {{ids({2}, {1, 2}), ids({2}, {0, 1})}}},
       "Batch: an array has shape [2], expected 3 rows" + hint},
      {{.bags = {{ids({2, 1}, {1, 2}), ids({2}, {0, 1})}}},
       "Batch: bags have ids of shape [2, 1] and offsets of shape [2], expected one axis each"},
      {{.bags = {{ids({1}, {1}), ids({0}, {})}}},
       "Batch: bags have 1 ids but no offsets, expected one offset per bag"},
      {{.bags = {{ids({2}, {1, 2}), ids({2}, {1, 2})}}},
       "Batch: offset 0 of bags is 1, expected 0 to 0"},
      {{.bags = {{ids({2}, {1, 2}), ids({3}, {0, 2, 1})}}},
       "Batch: offset 2 of bags is 1, expected 2 to 2"},
      {{.bags = {{ids({2}, {1, 2}), ids({2}, {0, 3})}}},
       "Batch: offset 1 of bags is 3, expected 0 to 2"},
      {{.tensors = {scalar(1)}}, "Batch: an array has shape [], expected at least one axis"},
      {{.ids = {Ids::from_shape({0, 2})}},
       "TensorDataset: there are no examples, expected at least one"},
  };
  for (const auto& item : cases) EXPECT_INVALID(item.second, TensorDataset{item.first});
  const Batch one{.ids = {ids({3}, {1, 2, 3})}};
  const std::string message = "Batch: there are 1 arrays of ids, expected two: inputs and targets";
  EXPECT_INVALID(message, one.inputs());
  EXPECT_INVALID(message, one.targets());
  EXPECT_INVALID("DataLoader: dataset is null", DataLoader{std::shared_ptr<const Dataset>()});
}

TEST(TensorDataset, HasAChecksumOfItsValues) {
  Batch number = three_rows(), fraction = three_rows(), shape = three_rows();
  Batch id = three_rows(), offset = three_rows();
  id.bags[0].ids[1] = 9;
  offset.bags[0].offsets[2] = 4;
  number.ids[1][5] = 7;
  fraction.tensors[0].data()[2] = 3;
  shape.ids[1] = ids({3, 1, 2}, {1, 2, 3, 4, 5, 6});
  std::set<std::string> descriptions;
  for (const Batch& batch : {three_rows(), three_rows(), number, fraction, shape, id, offset})
    descriptions.insert(bits_of(TensorDataset(batch).description()));
  EXPECT_EQ(descriptions.size(), 6U);
}

// A dataset of three examples that is described only by its size.
class Numbered : public Dataset {
 public:
  std::size_t size() const override { return 3; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    return three_rows().select(examples);
  }
};

TEST(Datasets, AreNotConfusedWithOthersOfTheSameSize) {
  DataLoader tensors(TensorDataset(three_rows()), {.batch = 2}), loader(Numbered(), {.batch = 2});
  EXPECT_INVALID("DataLoader: the state is from a loader of another kind of dataset",
                 loader.progress(tensors.state_dict({})));
  EXPECT_NO_THROW(loader.progress(DataLoader(Numbered(), {.batch = 2}).state_dict({})));
  for (const std::size_t i : {0, 1}) {
    const Batch one = tensors.epoch(0).read(i), other = loader.epoch(0).read(i);
    EXPECT_EQ(one.ids, other.ids);
    EXPECT_EQ(one.tensors[0], other.tensors[0]);
    EXPECT_EQ(one.ids[0], i == 0 ? ids({2}, {7, 8}) : ids({1}, {9}));
  }
}

TEST(Datasets, AreCheckedByTheLoaderIfCustom) {
  struct OneTooFew : Numbered {
    Batch batch(std::span<const std::int64_t> examples) const override {
      return three_rows().select(examples.subspan(1));
    }
  };
  DataLoader short_of_one(OneTooFew(), {.batch = 3});
  EXPECT_INVALID("DataLoader: the dataset returned 2 examples, expected 3",
                 short_of_one.epoch(0).begin());
  struct Named : Numbered {
    StateDict description() const override {
      StateDict description;
      description.put("name", std::string("ratings"));
      return description;
    }
  };
  EXPECT_INVALID(R"(StateDict: "name" is not an integer)", DataLoader(Named()).description());
}

}  // namespace
