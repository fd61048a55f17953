// Checkpoints and table files that earlier versions wrote are read, and training goes on from them
// to the numbers that those versions reached.

#include "tests/optim/frozen_checkpoints.hpp"

#include "tests/test.hpp"

namespace rowgrad {
namespace testing {

void PrintTo(const FrozenCase& item, std::ostream* out) { *out << item.name; }

}  // namespace testing
namespace {

const std::filesystem::path kFrozen = std::filesystem::path(ROWGRAD_TEST_DATA) / "frozen";

// What another machine may compute: it may fuse a multiplication with an addition, or sum in
// another order. Then each rounding of a step moves a number by half a spacing. A step of an
// optimizer has a dozen, which is 6 spacings of values about 1. Those of a momentum of up to 5 come
// back in full over the steps that follow, as 0.05 / (1 − 0.9) is 1/2: 3 roundings, 4 spacings. So
// 16 are enough, for all steps: those that rows are owed, too, are applied after loading.
double tolerance_of(const FrozenCase& item) { return item.roundings * item.end * kEpsilon; }

void expect_values(const Checkpoint& got, const Checkpoint& expected, double tolerance) {
  for (const std::string& name : got.names()) {
    const auto& tensor = std::get<Tensor>(got.at(name));
    double largest = 1;
    for (const real value : tensor) largest = std::max(largest, std::abs(double{value}));
    expect_near(tensor, expected.tensor(name, tensor.shape()), tolerance * largest, name);
  }
}

class FrozenCheckpoints : public ::testing::TestWithParam<FrozenCase> {
 protected:
  // A copy, as opening a table takes back what was not saved.
  std::unique_ptr<TableFile> open_copy_of_table() const {
    if (!GetParam().file) return nullptr;
    const std::string name = GetParam().file_name("table");
    for (const auto& entry : std::filesystem::directory_iterator(kFrozen)) {
      if (!entry.path().filename().string().starts_with(name)) continue;
      const std::filesystem::path copy = folder_ / entry.path().filename();
      std::filesystem::copy_file(entry.path(), copy);
      std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
    }
    return std::make_unique<TableFile>(folder_ / name);
  }

  TemporaryFolder folder_;
};

TEST_P(FrozenCheckpoints, ReadAsTheyWereSavedAndGoOnAsTheyDid) {
  const FrozenCase& item = GetParam();
  const Checkpoint all = read_safetensors(kFrozen / item.file_name("safetensors"));
  const auto file = open_copy_of_table();
  const auto training = item.make(file.get());
  training->load(all);
  // The values of a table in memory are saved with it; of one in a file, what rows are owed is
  // applied when they are read.
  expect_values(training->values(), all.part("now"), file ? tolerance_of(item) : 0);

  const std::vector<double> losses = training->train(item.saved, item.end);
  const Checkpoint later = all.part("later");
  expect_values(training->values(), later, tolerance_of(item));
  if (losses.empty()) return;
  const std::vector<double> expected = later.doubles("losses");
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], tolerance_of(item)) << i;
}

// Otherwise they would test little.
TEST_P(FrozenCheckpoints, HaveRowsThatAreOwedStepsOfManyLengths) {
  const Checkpoint all = read_safetensors(kFrozen / GetParam().file_name("safetensors"));
  for (const std::string& name : all.names()) {
    if (!name.ends_with(".lazy.at")) continue;
    const auto at = all.integers(name);
    EXPECT_GE(std::set(at.begin(), at.end()).size(), 4U) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FrozenCheckpoints, ::testing::ValuesIn(frozen_cases()),
                         [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace rowgrad
