#include <bit>

#include "tests/test.hpp"

namespace {

std::string bytes_of(auto number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(number)>>(number);
  return {bytes.begin(), bytes.end()};
}

std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(std::uint64_t{header.size()}) + header + data;
}

TEST(Safetensors, ReturnsEveryBitThatWasWritten) {
  using Limits = std::numeric_limits<real>;
  const TemporaryFolder folder;
  Checkpoint written;
  written.put("odd", tensor({2, 4}, {Limits::quiet_NaN(), -Limits::quiet_NaN(), -real{0}, real{0},
                                     Limits::denorm_min(), Limits::infinity(), Limits::lowest(),
                                     real(0.1)}));
  written.put("b.none", empty({3, 0, 2}));
  written.put("", scalar(7));
  written.put("a \"quoted\"\n", tensor({2, 1, 2}, {1, 2, 3, 4}));
  written.put("tokenizer", "{\"merges\": [\"\\u0120t\"]}");
  written.put("text", "gr\xc3\xbc\xc3\x9f");
  written.put("least", std::numeric_limits<std::int64_t>::min());
  written.put("counts", std::vector<std::int64_t>{3, -1, (1LL << 53) + 1});
  written.put("no counts", std::vector<std::int64_t>{});
  write_safetensors(folder / "file", written);
  EXPECT_TRUE(bits_of(read_safetensors(folder / "file")) == bits_of(written));
}

TEST(Safetensors, KeepsDoublePrecision) {
  const TemporaryFolder folder;
  const std::vector<double> numbers = {0.1, -0.0, 1e-310, std::numeric_limits<double>::infinity()};
  Checkpoint written;
  written.put("numbers", numbers);
  written.put("rate", 1.0 / 3);
  write_safetensors(folder / "file", written);
  const Checkpoint read = read_safetensors(folder / "file");
  EXPECT_EQ(read.doubles("numbers"), numbers);
  EXPECT_TRUE(std::signbit(read.doubles("numbers")[1]));
  EXPECT_EQ(read.number("rate"), 1.0 / 3);
}

TEST(Safetensors, HoldsNothingAtAll) {
  const TemporaryFolder folder;
  write_safetensors(folder / "file", {});
  EXPECT_EQ(read_file(folder / "file"),
            safetensors(R"({"__metadata__":{"rowgrad_format":"1"}} )", ""));
  EXPECT_TRUE(read_safetensors(folder / "file").empty());
}

#if defined(ROWGRAD_DOUBLE)
TEST(Safetensors, WritesDoublesAsSuch) {
  const TemporaryFolder folder;
  Checkpoint written;
  written.put("bias", scalar(0.5));
  write_safetensors(folder / "file", written);
  const std::string header = R"({"__metadata__":{"rowgrad_format":"1"},)"
                             R"("bias":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})";
  const std::string blanks((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "file"), safetensors(header + blanks, bytes_of(0.5)));
}
#else
TEST(Safetensors, WritesExactlyTheseBytes) {
  const TemporaryFolder folder;
  Checkpoint written;
  written.put("bias", tensor({1}, {0.5}));
  written.put("weight", tensor({1, 2}, {1, -2}));
  written.put("steps", 258);
  written.put("version", "3");
  write_safetensors(folder / "file", written);
  // Larger types come first.
  const std::string header =
      "{\"__metadata__\":{\"rowgrad_format\":\"1\",\"version\":\"3\"},"
      "\"steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
      "\"weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[12,20]}}";
  const std::string blanks((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "file"),
            bytes_of(std::uint64_t{header.size() + blanks.size()}) + header + blanks +
                std::string("\x02\x01\0\0\0\0\0\0", 8) +
                std::string("\x00\x00\x00\x3f\x00\x00\x80\x3f\x00\x00\x00\xc0", 12));
}
#endif

TEST(Safetensors, ReadsBothNumberTypesInAnyOrderOfTheHeader) {
  const TemporaryFolder folder;
  write_file(folder / "file",
             safetensors(R"({"d": {"data_offsets": [4, 20], "shape": [2], "dtype": "F64"},
                             "f": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}} )",
                         bytes_of(0.25f) + bytes_of(-1.5) + bytes_of(1e300)));
  const Checkpoint file = read_safetensors(folder / "file");
  EXPECT_EQ(file.tensor("f", {}), scalar(0.25));
  EXPECT_EQ(file.tensor("d", {2}), tensor({2}, {-1.5, static_cast<real>(1e300)}));
  EXPECT_EQ(file.doubles("d"), (std::vector<double>{-1.5, 1e300}));
}

// A file with one value, an array of numbers of one type.
template <class Number>
Checkpoint read_one(const TemporaryFolder& folder, const std::string& dtype,
                    const std::vector<Number>& numbers) {
  std::string data;
  for (const Number number : numbers) data += bytes_of(number);
  write_file(folder / "file",
             safetensors("{\"x\":{\"dtype\":\"" + dtype + "\",\"shape\":[" +
                             std::to_string(numbers.size()) + "],\"data_offsets\":[0," +
                             std::to_string(data.size()) + "]}}",
                         data));
  return read_safetensors(folder / "file");
}

TEST(Safetensors, ReadsEveryHalf) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), 0);
  const Tensor halves = read_one(folder, "F16", all).tensor("x", {all.size()});
  const Tensor brain_floats = read_one(folder, "BF16", all).tensor("x", {all.size()});
  for (const std::uint16_t bits : all) {
    // sign, exponent and fraction of 1 + 5 + 10 bits, and 1 + 8 + 7
    const auto expected = [bits](int fraction_bits, int bias) -> double {
      const int fraction = bits & ((1 << fraction_bits) - 1);
      const int exponent = (bits & 0x7FFF) >> fraction_bits;
      const double sign = bits >> 15 == 0 ? 1 : -1;
      if (exponent == 2 * bias + 1)
        return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
      if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
      return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    };
    for (const auto& [actual, wanted] : {std::pair<double, double>{halves(bits), expected(10, 15)},
                                         {brain_floats(bits), expected(7, 127)}}) {
      ASSERT_EQ(std::isnan(actual), std::isnan(wanted)) << bits;
      if (std::isnan(wanted)) continue;
      ASSERT_EQ(actual, wanted) << bits;
      ASSERT_EQ(std::signbit(actual), std::signbit(wanted)) << bits;
    }
  }
}

template <class Number>
void expect_whole_numbers(const TemporaryFolder& folder, const std::string& dtype) {
  using Limits = std::numeric_limits<Number>;
  const Number most =
      std::min<std::uint64_t>(Limits::max(), std::numeric_limits<std::int64_t>::max());
  const std::vector<Number> numbers = {Limits::min(), 1, most};
  EXPECT_EQ(read_one(folder, dtype, numbers).integers("x"),
            std::vector<std::int64_t>(numbers.begin(), numbers.end()))
      << dtype;
}

TEST(Safetensors, ReadsWholeNumbersOfAnyType) {
  const TemporaryFolder folder;
  expect_whole_numbers<std::int8_t>(folder, "I8");
  expect_whole_numbers<std::int16_t>(folder, "I16");
  expect_whole_numbers<std::int32_t>(folder, "I32");
  expect_whole_numbers<std::int64_t>(folder, "I64");
  expect_whole_numbers<std::uint8_t>(folder, "U8");
  expect_whole_numbers<std::uint16_t>(folder, "U16");
  expect_whole_numbers<std::uint32_t>(folder, "U32");
  expect_whole_numbers<std::uint64_t>(folder, "U64");
  EXPECT_EQ(read_one<std::uint8_t>(folder, "BOOL", {0, 1}).integers("x"),
            (std::vector<std::int64_t>{0, 1}));
  EXPECT_ERROR(std::runtime_error,
               (folder / "file").string() +
                   ": tensor \"x\" has 9223372036854775808, more than 9223372036854775807",
               read_one<std::uint64_t>(folder, "U64", {1, std::uint64_t{1} << 63}));
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotReadBack) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name, const std::string& text) {
    Checkpoint checkpoint;
    checkpoint.put(name, text);
    return error_of<std::invalid_argument>([&] { write_safetensors(folder / "file", checkpoint); });
  };
  EXPECT_EQ(refusal("__metadata__", "text"),
            "write_safetensors: no value may have the name \"__metadata__\"");
  EXPECT_EQ(refusal("rowgrad_format", "2"),
            "write_safetensors: no text may have the name \"rowgrad_format\"");
  for (const auto& [name, text] : {std::pair("text", "\xff"), {"\xff", "text"}})
    EXPECT_EQ(
        refusal(name, text),
        "write_safetensors: a name or text: the byte \"\\xff\" at byte 0 of the text is not part "
        "of valid UTF-8");
  EXPECT_EQ(refusal("text", std::string(100'000'000, 'x')),
            "write_safetensors: the header would have 100000056 bytes, more than the 100000000 "
            "that the format allows");
  EXPECT_FALSE(std::filesystem::exists(folder / "file"));
}

TEST(Safetensors, NamesItsFormatAndRefusesALaterOne) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  Checkpoint written;
  written.put("steps", 3);
  write_safetensors(path, written);
  EXPECT_EQ(read_safetensors(path).names(), std::vector<std::string>{"steps"});
  std::string contents = read_file(path);
  const std::string format = R"("rowgrad_format":"1")";
  const std::size_t place = contents.find(format) + format.size() - 2;
  ASSERT_EQ(contents.substr(8, 37), R"({"__metadata__":{"rowgrad_format":"1")");
  for (const char other : {'2', '0', 'x'}) {
    contents[place] = other;
    write_file(path, contents);
    EXPECT_ERROR(std::runtime_error,
                 path + ": is a checkpoint of format \"" + other +
                     "\", but this version reads format \"1\" and files that name none",
                 read_safetensors(path));
  }
  // Other programs' metadata name no format of ours, and a tensor may have any name.
  write_file(path,
             safetensors(R"({"__metadata__":{"format":"pt"},)"
                         R"("rowgrad_format":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})",
                         "\x07"));
  EXPECT_EQ(read_safetensors(path).text("format"), "pt");
  EXPECT_EQ(read_safetensors(path).integer("rowgrad_format"), 7);
}

TEST(Safetensors, RefusesEveryFileCutShort) {
  const TemporaryFolder folder;
  Checkpoint written;
  written.put("weight", tensor({2, 2}, {1, 2, 3, 4}));
  write_safetensors(folder / "whole", written);
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
      {safetensors(one("\"F8_E4M3\"", "[4]", "[0,4]"), four),
       "tensor \"x\" has the dtype \"F8_E4M3\", which is none of F16, BF16, F32, F64, I8 to I64, "
       "U8 to U64, BOOL"},
      {safetensors(one("\"BF16\"", "[1]", "[0,4]"), four),
       "tensor \"x\" of shape [1] needs 2 bytes, but has 4"},
      {safetensors("{\"__metadata__\":{\"x\":\"\"}," + one("\"I8\"", "[4]", "[0,4]").substr(1),
                   four),
       "tensor \"x\" has the name of a text in the metadata"},
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
    EXPECT_ERROR(std::runtime_error, path + ": " + refusal.message, read_safetensors(path));
  }
}

TEST(Safetensors, QuotesNoMoreThanAPartOfALongName) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string name(1'000'000, 'x');
  std::string list = "[1";
  for (int i = 1; i < 100'000; ++i) list += ",1";
  list += ']';
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return concat("{\"x\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                  ",\"data_offsets\":", offsets, "}}");
  };
  for (const std::string& header :
       {"{\"" + name + "\":{}}", "{\"" + name + "\":1,\"" + name + "\":1}",
        tensor(name, "[]", "[0,4]"), tensor("F32", list, "[0,8]"), tensor("F32", "[]", list)}) {
    write_file(path, safetensors(header, ""));
    const std::string message = error_of<std::runtime_error>([&] { read_safetensors(path); });
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    EXPECT_LT(message.size(), path.size() + 200);
  }
}

TEST(Safetensors, TakesTimeInProportionToTheNumberOfTensors) {
  constexpr std::size_t kTensors = 40'000;
  const TemporaryFolder folder;
  Checkpoint written;
  for (std::size_t i = 0; i < kTensors; ++i) {
    written.put("layer." + std::to_string(i), scalar(1));
    written.put("key " + std::to_string(i), "text");
  }
  // Takes a tenth of a second; comparing each tensor with all others would take half a minute.
  EXPECT_LT(seconds_of([&] {
              write_safetensors(folder / "file", written);
              EXPECT_EQ(read_safetensors(folder / "file").names().size(), 2 * kTensors);
            }),
            5.0);
}

TEST(Safetensors, NamesAFileThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string path = folder / "missing";
  EXPECT_ERROR(std::runtime_error, "cannot read " + path + ": No such file or directory",
               read_safetensors(path));
}

}  // namespace
