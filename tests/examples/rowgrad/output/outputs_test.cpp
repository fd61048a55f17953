#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/output/outputs.hpp>

namespace {

// The first bytes show that a file is of another kind. The file of this test is larger than memory.
TEST(Outputs, ReadOnlyTheFirstBytesOfForeignFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "large";
  for (const OutputKind& kind :
       {kRunFile, kRunJson, kLossesCsv, kRowList, kWordVectors, kVectorWords, kNearestJson,
        kGpt2Weights, kRowsJson, kRowsCsv, kReportPage, kReportData, kRunLog, kTokenizerFile,
        kTokenIds, kClassifierFile, kAdapterFile, kMeasurements}) {
    write_file(path, std::string(16, '\xEE'));
    std::filesystem::resize_file(path, std::uint64_t{1} << 40);
    EXPECT_ERROR_WITH(std::runtime_error, concat(" exists and is not ", kind.name),
                      check_outputs({{"--file", path, kind}}, {}, false));
  }
}

}  // namespace
