#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/seconds_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/safetensors.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::seconds_of;
using testing::TemporaryFolder;

Tensor tensor(const Shape& shape, const std::vector<real>& numbers) {
  Tensor result = empty(shape);
  EXPECT_EQ(result.size(), numbers.size());
  std::copy(numbers.begin(), numbers.end(), result.data());
  return result;
}

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(real)};
}

std::string bytes_of(auto number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(number)>>(number);
  return {bytes.begin(), bytes.end()};
}

// Compared as bytes: NaN equals itself, and -0 differs from 0.
void expect_same_bits(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(bytes_of(actual), bytes_of(expected));
}

std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(std::uint64_t{header.size()}) + header + data;
}

TEST(Safetensors, ReturnsEveryBitThatWasWritten) {
  using Limits = std::numeric_limits<real>;
  const TemporaryFolder folder;
  const Tensor odd =
      tensor({2, 4}, {Limits::quiet_NaN(), -Limits::quiet_NaN(), -real{0}, real{0},
                      Limits::denorm_min(), Limits::infinity(), Limits::lowest(), real(0.1)});
  const Tensor rank0 = scalar(7);
  const Tensor none = empty({3, 0, 2});
  const Tensor cube = tensor({2, 1, 2}, {1, 2, 3, 4});
  const Metadata metadata = {{"tokenizer", "{\"merges\": [\"\\u0120t\"]}"},
                             {"", "gr\xc3\xbc\xc3\x9f"}};

  write_safetensors(folder / "file",
                    std::vector<NamedTensor>{
                        {"odd", &odd}, {"b.none", &none}, {"", &rank0}, {"a \"quoted\"\n", &cube}},
                    metadata);
  const SafetensorsFile file = read_safetensors(folder / "file");

  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), 4u);
  expect_same_bits(file.tensors.at("odd"), odd);
  expect_same_bits(file.tensors.at("b.none"), none);
  expect_same_bits(file.tensors.at(""), rank0);
  expect_same_bits(file.tensors.at("a \"quoted\"\n"), cube);
}

TEST(Safetensors, HoldsNothingAtAll) {
  const TemporaryFolder folder;
  write_safetensors(folder / "file", {});
  EXPECT_EQ(read_file(folder / "file"), safetensors("{}      ", ""));
  const SafetensorsFile file = read_safetensors(folder / "file");
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
}

#if defined(ROWGRAD_DOUBLE)
TEST(Safetensors, WritesDoublesAsSuch) {
  const TemporaryFolder folder;
  const Tensor bias = scalar(real{0.5});
  write_safetensors(folder / "file", std::vector<NamedTensor>{{"bias", &bias}});
  const std::string header = R"({"bias":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})";
  EXPECT_EQ(read_file(folder / "file"), safetensors(header, bytes_of(0.5)));
}
#else
TEST(Safetensors, WritesExactlyTheseBytes) {
  const TemporaryFolder folder;
  const Tensor weight = tensor({1, 2}, {1, -2});
  const Tensor bias = tensor({1}, {0.5});
  write_safetensors(folder / "file", std::vector<NamedTensor>{{"weight", &weight}, {"bias", &bias}},
                    {{"step", "3"}});
  const std::string header =
      "{\"__metadata__\":{\"step\":\"3\"},"
      "\"weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
      "\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
  const std::string blanks((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(header.size() + blanks.size(), 152u);
  EXPECT_EQ(read_file(folder / "file"),
            std::string("\x98\0\0\0\0\0\0\0", 8) + header + blanks +
                std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f", 12));
}
#endif

TEST(Safetensors, ReadsBothNumberTypesInAnyOrderOfTheHeader) {
  const TemporaryFolder folder;
  write_file(folder / "file",
             safetensors(R"({"d": {"data_offsets": [4, 20], "shape": [2], "dtype": "F64"},
                             "f": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}} )",
                         bytes_of(0.25f) + bytes_of(-1.5) + bytes_of(1e300)));
  const SafetensorsFile file = read_safetensors(folder / "file");
  expect_same_bits(file.tensors.at("f"), scalar(0.25));
  expect_same_bits(file.tensors.at("d"), tensor({2}, {-1.5, static_cast<real>(1e300)}));
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotReadBack) {
  const TemporaryFolder folder;
  const Tensor one = scalar(1);
  const auto refusal = [&](const std::vector<NamedTensor>& tensors, const Metadata& metadata = {}) {
    return error_of<std::invalid_argument>(
        [&] { write_safetensors(folder / "file", tensors, metadata); });
  };
  EXPECT_EQ(refusal({{"a", &one}, {"a", &one}}),
            "write_safetensors: the name \"a\" is taken already");
  EXPECT_EQ(refusal({{"__metadata__", &one}}),
            "write_safetensors: the name \"__metadata__\" is taken already");
  EXPECT_EQ(refusal({{"a", nullptr}}), "write_safetensors: tensor \"a\" is null");
  EXPECT_EQ(
      refusal({}, {{"text", "\xff"}}),
      "write_safetensors: a name or text: the byte \"\\xff\" at byte 0 of the text is not part "
      "of valid UTF-8");
  EXPECT_EQ(
      refusal({}, {{"text", std::string(100'000'000, 'x')}}),
      "write_safetensors: the header would have 100000032 bytes, more than the 100000000 that "
      "the format allows");
  EXPECT_FALSE(std::filesystem::exists(folder / "file"));
}

TEST(Safetensors, RefusesEveryFileCutShort) {
  const TemporaryFolder folder;
  const Tensor weight = tensor({2, 2}, {1, 2, 3, 4});
  write_safetensors(folder / "whole", std::vector<NamedTensor>{{"weight", &weight}});
  const std::string whole = read_file(folder / "whole");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "cut", whole.substr(0, length));
    EXPECT_NE(error_of<std::runtime_error>([&] { read_safetensors(folder / "cut"); }), "no error")
        << "at length " << length;
  }
}

struct Refusal {
  std::string contents;
  std::string message;  // after the path
};

TEST(Safetensors, SaysWhatIsWrongWithAFile) {
  const std::string four(4, '\0');
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return "{\"x\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
           "}}";
  };
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"x":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"y":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  const std::vector<Refusal> refusals = {
      {"", "not a safetensors file: it has 0 bytes"},
      {"1234567", "not a safetensors file: it has 7 bytes"},
      {"A story, not tensors.",
       "not a safetensors file: its header would have 3204718432871456833 bytes, more than the "
       "100000000 that the format allows"},
      {bytes_of(std::uint64_t{100'000'001}),
       "not a safetensors file: its header would have 100000001 bytes, more than the 100000000 "
       "that the format allows"},
      {bytes_of(std::uint64_t{100'000'000}) + "{}",
       "truncated: the header has 100000000 bytes, of which the file holds 2"},
      {safetensors("", ""), "not a safetensors file: its header is not a JSON object"},
      {safetensors("[]", ""), "not a safetensors file: its header is not a JSON object"},
      {safetensors("{\"x\": }", ""), "the header, byte 6: not valid JSON"},
      {safetensors("{} {}", ""), "the header, byte 3: not valid JSON"},
      {safetensors("{\"\xff\": 1}", ""), "the header, byte 2: not valid JSON"},
      {safetensors("{\"x\":{\"y\":" + std::string(100'000, '['), ""),
       "the header: values are nested too deep"},
      {safetensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[],\"shape\":[1]}}", four),
       "the header: the key \"shape\" is there twice"},
      {safetensors("{\"x\":{},\"x\":{}}", ""), "the header: the key \"x\" is there twice"},
      {safetensors(two("[0,4]", "[4,8]").replace(55, 1, "x"), four + four),
       "the header: the key \"x\" is there twice"},
      {safetensors("{\"__metadata__\":[]}", ""),
       "the header, at \"__metadata__\": expected an object"},
      {safetensors("{\"__metadata__\":{\"step\":3}}", ""),
       "the header, at \"step\": expected a string"},
      {safetensors("{\"x\":1}", ""), "the header, at \"x\": expected an object"},
      {safetensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", four),
       "tensor \"x\" has no data_offsets"},
      {safetensors(one("\"BF16\"", "[2]", "[0,4]"), four),
       "tensor \"x\" has the dtype \"BF16\"; only F32 and F64 are supported"},
      {safetensors(one("32", "[1]", "[0,4]"), four), "the header, at \"dtype\": expected a string"},
      {safetensors(one("\"F32\"", "1", "[0,4]"), four),
       "the header, at \"shape\": expected an array"},
      {safetensors(one("\"F32\"", "[-1]", "[0,4]"), four),
       "the header, at \"shape\": expected a whole number below 2^64"},
      {safetensors(one("\"F32\"", "[1.0]", "[0,4]"), four),
       "the header, at \"shape\": expected a whole number below 2^64"},
      {safetensors(one("\"F32\"", "[1e999]", "[0,4]"), four),
       "the header, byte 33: a number too large"},
      {safetensors(one("\"F32\"", "[1]", "[4]"), four), "tensor \"x\" has the data_offsets [4]"},
      {safetensors(one("\"F32\"", "[1]", "[4,0]"), four),
       "tensor \"x\" has the data_offsets [4, 0]"},
      {safetensors(one("\"F32\"", "[1]", "[0,-4]"), four),
       "the header, at \"data_offsets\": expected a whole number below 2^64"},
      {safetensors(one("\"F32\"", "[3]", "[0,4]"), four),
       "tensor \"x\" of shape [3] needs 12 bytes, but has 4"},
      {safetensors(one("\"F64\"", "[1]", "[0,4]"), four),
       "tensor \"x\" of shape [1] needs 8 bytes, but has 4"},
      {safetensors(one("\"F32\"", "[4294967296,4294967296]", "[0,0]"), ""),
       "tensor \"x\" has the impossible shape [4294967296, 4294967296]"},
      {safetensors(one("\"F32\"", "[0,18446744073709551615]", "[0,0]"), ""),
       "tensor \"x\" has the impossible shape [0, 18446744073709551615]"},
      {safetensors(one("\"F32\"", "[1]", "[0,4]"), ""),
       "truncated: the tensors have 4 bytes, of which the file holds 0"},
      {safetensors(one("\"F32\"", "[1]", "[18446744073709551608,18446744073709551612]"), four),
       "the bytes 0 to 18446744073709551608 of the data belong to no tensor"},
      {safetensors(one("\"F32\"", "[1]", "[0,4]"), four + four), "4 bytes follow the last tensor"},
      {safetensors("{}", four), "4 bytes follow the last tensor"},
      {safetensors(one("\"F32\"", "[1]", "[4,8]"), four + four),
       "the bytes 0 to 4 of the data belong to no tensor"},
      {safetensors(two("[0,4]", "[8,12]"), four + four + four),
       "the bytes 4 to 8 of the data belong to no tensor"},
      {safetensors(two("[0,4]", "[2,6]"), four + four), "tensor \"y\" overlaps another one"},
      {safetensors(two("[0,4]", "[0,4]"), four), "tensor \"y\" overlaps another one"},
  };
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  for (const Refusal& refusal : refusals) {
    write_file(path, refusal.contents);
    EXPECT_EQ(error_of<std::runtime_error>([&] { read_safetensors(path); }),
              path + ": " + refusal.message);
  }
}

TEST(Safetensors, QuotesNoMoreThanAPartOfALongName) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string name(1'000'000, 'x');
  const auto length_of_refusal = [&](const std::string& header) {
    write_file(path, safetensors(header, ""));
    const std::string message = error_of<std::runtime_error>([&] { read_safetensors(path); });
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return message.size() - path.size();
  };
  const auto list = [](int numbers) {
    std::string text = "[1";
    for (int i = 1; i < numbers; ++i) text += ",1";
    return text + ']';
  };
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  EXPECT_LT(length_of_refusal("{\"" + name + "\":{}}"), 200u);
  EXPECT_LT(length_of_refusal("{\"" + name + "\":1,\"" + name + "\":1}"), 200u);
  EXPECT_LT(length_of_refusal("{\"x\":" + tensor(name, "[]", "[0,4]") + "}"), 200u);
  EXPECT_LT(length_of_refusal("{\"x\":" + tensor("F32", list(100'000), "[0,8]") + "}"), 200u);
  EXPECT_LT(length_of_refusal("{\"x\":" + tensor("F32", "[]", list(100'000)) + "}"), 200u);
}

TEST(Safetensors, TakesTimeInProportionToTheNumberOfTensors) {
  constexpr std::size_t kTensors = 40'000;
  const TemporaryFolder folder;
  const Tensor one = scalar(1);
  std::vector<NamedTensor> tensors;
  Metadata metadata;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.emplace_back("layer." + std::to_string(i), &one);
    metadata["key " + std::to_string(i)] = "text";
  }
  // A tenth of a second; where each tensor is compared with all others it is half a minute.
  EXPECT_LT(seconds_of([&] {
              write_safetensors(folder / "file", tensors, metadata);
              EXPECT_EQ(read_safetensors(folder / "file").tensors.size(), kTensors);
            }),
            5.0);
}

TEST(Safetensors, NamesAFileThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string path = folder / "missing";
  EXPECT_EQ(error_of<std::runtime_error>([&] { read_safetensors(path); }),
            "cannot read " + path + ": No such file or directory");
}

}  // namespace
}  // namespace rowgrad
