#include "tests/test.hpp"
#include <rowgrad/core/base/columns.hpp>

namespace {

TEST(Columns, RoundTripNumbers) {
  const std::vector<std::uint64_t> counts{0, 1, 127, 128, 300, 1ULL << 32, ~0ULL};
  EXPECT_EQ(unpack_counts(pack_counts(counts)), counts);
  EXPECT_EQ(pack_counts(std::vector<std::uint64_t>{1, 300}), "AawC");
  EXPECT_EQ(unpack_counts(""), std::vector<std::uint64_t>());
  const std::vector<double> numbers{0, 1, 0.5, 123, 0.00123, 9.99e31, 1e-32, 4.56e-20, 8.7e9};
  const std::vector<double> again = unpack_numbers(pack_numbers(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_DOUBLE_EQ(again[i], numbers[i]);
  const std::vector<double> others{9.996, 1.2345e-7, 1e-40, -2, 1e60, kInfinity},
      rounded_to{10, 1.23e-7, 0, 0, 1e32};
  const std::vector<double> found = unpack_numbers(pack_numbers(others));
  for (std::size_t i = 0; i < rounded_to.size(); ++i)
    EXPECT_DOUBLE_EQ(found[i], rounded_to[i]) << others[i];
  EXPECT_TRUE(std::isnan(found.back()));
}

TEST(Columns, RejectMalformedStrings) {
  for (const char* wrong :
       {"A", "AA", "A===", "AB C", "gICAgICAgICAgIAB", "gICAgICAgICAAg==", "gA=="})
    EXPECT_THROW(unpack_counts(wrong), std::runtime_error) << wrong;
  EXPECT_THROW(unpack_numbers("AAAA"), std::runtime_error);  // decodes to three bytes
}

}  // namespace
