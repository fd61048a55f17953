#include <bit>

#include "tests/test.hpp"
#include <rowgrad/core/base/hash.hpp>

namespace {

std::string bytes_of(auto number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(number)>>(number);
  return {bytes.begin(), bytes.end()};
}

std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(std::uint64_t{header.size()}) + header + data;
}

// Returns the header of a file with one value.
std::string header_of(const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
  return concat("{\"x\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                ",\"data_offsets\":", offsets, "}}");
}

// Replaces the zeros after kBegin in `header` by the checksum of the file, and appends the tensors.
// Each tensor must fit in one block.
const std::string kBegin = R"({"__metadata__":{"rowgrad_format":"2","rowgrad_checksum":")";
std::string with_checksum(std::string header, const std::vector<std::string>& tensors) {
  const auto add = [](Checksum& sum, const std::string& bytes) {
    sum.add_bytes(std::as_bytes(std::span(bytes)));
  };
  Checksum sum;
  add(sum, safetensors(header, ""));
  std::string data;
  for (const std::string& tensor : tensors) {
    Checksum of_block;
    add(of_block, tensor);
    sum.add(of_block.value());
    data += tensor;
  }
  return safetensors(header.replace(kBegin.size(), 16, checksum_digits(sum.value())), data);
}

class Safetensors : public ::testing::Test {
 protected:
  StateDict read(const std::string& contents) const {
    write_file(path_, contents);
    return read_safetensors(path_);
  }

  StateDict written_and_read(const StateDict& state) const {
    write_safetensors(path_, state);
    return read_safetensors(path_);
  }

  // Writes and reads a file with one value, an array of numbers.
  template <class Number>
  StateDict read_one(const std::string& dtype, const std::vector<Number>& numbers) const {
    std::string data;
    for (const Number number : numbers) data += bytes_of(number);
    return read(safetensors(
        header_of(dtype, concat('[', numbers.size(), ']'), concat("[0,", data.size(), ']')), data));
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "file";
};

TEST_F(Safetensors, RoundTripsEveryBit) {
  using Limits = std::numeric_limits<real>;
  StateDict written;
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
  EXPECT_TRUE(bits_of(written_and_read(written)) == bits_of(written));

  const std::vector<double> numbers = {0.1, -0.0, 1e-310, std::numeric_limits<double>::infinity()};
  written.put("numbers", numbers);  // a tensor when read by the double library
  written.put("rate", 1.0 / 3);
  const StateDict found = written_and_read(written);
  EXPECT_EQ(found.doubles("numbers"), numbers);
  EXPECT_TRUE(std::signbit(found.doubles("numbers")[1]));
  EXPECT_EQ(found.number("rate"), 1.0 / 3);
}

TEST_F(Safetensors, WritesTheDocumentedBytes) {
  write_safetensors(path_, {});
  const std::string begin = kBegin + "0000000000000000\"";
  const auto padded = [](const std::string& header) {
    return header + std::string((8 - header.size() % 8) % 8, ' ');
  };
  EXPECT_EQ(read_file(path_), with_checksum(padded(begin + "}}"), {}));
  EXPECT_TRUE(read_safetensors(path_).empty());
#if !defined(ROWGRAD_DOUBLE)
  StateDict written;
  written.put("bias", tensor({1}, {0.5}));
  written.put("weight", tensor({1, 2}, {1, -2}));
  written.put("steps", 258);
  written.put("version", "3");
  write_safetensors(path_, written);
  // Larger types come first.
  const std::string header =
      begin +
      ",\"version\":\"3\"},"
      "\"steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
      "\"weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[12,20]}}";
  EXPECT_EQ(read_file(path_),
            with_checksum(padded(header), {bytes_of(std::int64_t{258}), bytes_of(0.5F),
                                           bytes_of(1.0F) + bytes_of(-2.0F)}));
#endif
}

TEST_F(Safetensors, ReadsFloatsAndDoublesInAnyOrder) {
  const StateDict file =
      read(safetensors(R"({"d": {"data_offsets": [4, 20], "shape": [2], "dtype": "F64"},
                           "f": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}} )",
                       bytes_of(0.25F) + bytes_of(-1.5) + bytes_of(1e300)));
  EXPECT_EQ(file.tensor("f", {}), scalar(0.25));
  EXPECT_EQ(file.tensor("d", {2}), tensor({2}, {-1.5, static_cast<real>(1e300)}));
  EXPECT_EQ(file.doubles("d"), (std::vector<double>{-1.5, 1e300}));
}

// The value that is not wanted would not fit into memory.
TEST_F(Safetensors, ReadsOnlyTheWantedValues) {
  const std::string header =
      R"({"__metadata__": {"note": "a text"},
          "steps": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
          "table": {"dtype": "F32", "shape": [274877906944], "data_offsets": [8, 1099511627784]}})";
  const std::string contents = safetensors(header, bytes_of(std::int64_t{7}));
  write_file(path_, contents);
  std::filesystem::resize_file(path_, contents.size() + (std::uint64_t{1} << 40));
  const StateDict file = read_safetensors(path_, [](const std::string& name, const Shape& shape) {
    EXPECT_EQ(shape, name == "steps" ? Shape{} : Shape{std::size_t{1} << 38});
    return name == "steps";
  });
  EXPECT_EQ(file.names(), (std::vector<std::string>{"note", "steps"}));
  EXPECT_EQ(file.count("steps"), 7U);
  EXPECT_EQ(read_safetensors(path_, nullptr).names(), std::vector<std::string>{"note"});
}

TEST_F(Safetensors, ReadsEveryF16AndBf16Value) {
  std::vector<std::uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), 0);
  const Tensor halves = read_one("F16", all).tensor("x", {all.size()});
  const Tensor brain_floats = read_one("BF16", all).tensor("x", {all.size()});
  for (const std::uint16_t bits : all) {
    // sign, exponent and fraction: 1 + 5 + 10 bits for F16, and 1 + 8 + 7 bits for BF16
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

TEST_F(Safetensors, ReadsIntegersOfEveryType) {
  const auto expect_type = [&]<class Number>(const std::string& dtype, Number one) {
    using Limits = std::numeric_limits<Number>;
    const Number most =
        std::min<std::uint64_t>(Limits::max(), std::numeric_limits<std::int64_t>::max());
    const std::vector<Number> numbers = {Limits::min(), one, most};
    EXPECT_EQ(read_one(dtype, numbers).integers("x"),
              std::vector<std::int64_t>(numbers.begin(), numbers.end()))
        << dtype;
  };
  expect_type("I8", std::int8_t{1});
  expect_type("I16", std::int16_t{1});
  expect_type("I32", std::int32_t{1});
  expect_type("I64", std::int64_t{1});
  expect_type("U8", std::uint8_t{1});
  expect_type("U16", std::uint16_t{1});
  expect_type("U32", std::uint32_t{1});
  expect_type("U64", std::uint64_t{1});
  expect_type("BOOL", std::uint8_t{1});
  EXPECT_ERROR(std::runtime_error,
               path_ +
                   ": tensor \"x\" has element 9223372036854775808, expected at most "
                   "9223372036854775807",
               read_one<std::uint64_t>("U64", {1, std::uint64_t{1} << 63}));
}

TEST_F(Safetensors, RejectsValuesThatItCouldNotReadBack) {
  const std::string no_utf8 =
      "a name or string: the byte \"\\xff\" at byte 0 of the text is not part of valid UTF-8";
  struct Refused {
    std::string name, text, message;
  };
  for (const Refused& item : std::vector<Refused>{
           {"__metadata__", "text", "the name \"__metadata__\" is reserved"},
           {"rowgrad_format", "2",
            "the name \"rowgrad_format\" is reserved, expected another name for a string"},
           {"rowgrad_checksum", "2",
            "the name \"rowgrad_checksum\" is reserved, expected another name for a string"},
           {"text", "\xff", no_utf8},
           {"\xff", "text", no_utf8},
           {"text", std::string(50'000'000, '\n'),  // two bytes each in JSON
            "the header would have 100000088 bytes, but the format allows at most 100000000"}}) {
    StateDict state;
    state.put(item.name, item.text);
    EXPECT_INVALID("write_safetensors: " + item.message, write_safetensors(path_, state));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Safetensors, StoresItsFormatAndRejectsALaterOne) {
  const auto of_format = [](char format) {
    return safetensors(concat("{\"__metadata__\":{\"rowgrad_format\":\"", format, "\"}}"), "");
  };
  EXPECT_TRUE(read(of_format('1')).empty());
  for (const char other : {'3', '0', 'x'})
    EXPECT_ERROR(std::runtime_error,
                 path_ + ": has rowgrad_format \"" + other +
                     "\", but this version of rowgrad reads only \"1\" and \"2\", and files of "
                     "other programs",
                 read(of_format(other)));
  EXPECT_ERROR(std::runtime_error,
               path_ + ": is damaged: it has only one of rowgrad_format \"2\" and rowgrad_checksum",
               read(of_format('2')));
  // Metadata of other programs does not contain rowgrad_format, and a tensor may have any name.
  const StateDict file =
      read(safetensors(R"({"__metadata__":{"format":"pt"},)"
                       R"("rowgrad_format":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})",
                       "\x07"));
  EXPECT_EQ(file.string("format"), "pt");
  EXPECT_EQ(file.integer("rowgrad_format"), 7);
}

TEST_F(Safetensors, DetectsEveryFlippedBit) {
  StateDict written;
  written.put("weight", tensor({1, 2}, {1, -2}));
  written.put("steps", 258);
  written.put("text", "a");
  write_safetensors(path_, written);
  const std::string good = read_file(path_);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string damaged = good;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_THROW(read(damaged), std::runtime_error) << bit;
  }
  EXPECT_TRUE(bits_of(read(good)) == bits_of(written));
}

TEST_F(Safetensors, ErrorsSayWhatIsWrongWithTheFile) {
  const std::string four(4, '\0'), eight(8, '\0');
  const auto floats = [](const std::string& shape, const std::string& offsets) {
    return header_of("F32", shape, offsets);
  };
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"x":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"y":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  struct Refusal {
    std::string header, data, message;
  };
  for (const Refusal& item : std::vector<Refusal>{
           {"", "", "not a safetensors file: its header is not a JSON object"},
           {"[]", "", "not a safetensors file: its header is not a JSON object"},
           {"{\"\xff\": 1}", "", "the header, byte 2: not valid JSON"},
           {"{\"x\":{},\"x\":{}}", "", "the header: duplicate key \"x\""},
           {R"({"__metadata__":[]})", "", "the header, at \"__metadata__\": expected an object"},
           {R"({"__metadata__":{"step":3}})", "", "the header, at \"step\": expected a string"},
           {R"({"x":1})", "", "the header, at \"x\": expected an object"},
           {R"({"x":{"dtype":"F32","shape":[1]}})", four, "tensor \"x\" has no data_offsets"},
           {header_of("F8_E4M3", "[4]", "[0,4]"), four,
            "tensor \"x\" has dtype \"F8_E4M3\", expected F16, BF16, F32, F64, I8 to I64, U8 to "
            "U64 or BOOL"},
           {header_of("BF16", "[1]", "[0,4]"), four,
            "tensor \"x\" of shape [1] has 4 bytes, expected 2"},
           {header_of("F64", "[1]", "[0,4]"), four,
            "tensor \"x\" of shape [1] has 4 bytes, expected 8"},
           {"{\"__metadata__\":{\"x\":\"\"}," + floats("[1]", "[0,4]").substr(1), four,
            "tensor \"x\" has the same name as a string in the metadata"},
           {floats("1", "[0,4]"), four, "the header, at \"shape\": expected an array"},
           {floats("[-1]", "[0,4]"), four,
            "the header, at \"shape\": expected a whole number below 2^64"},
           {floats("[1]", "[4]"), four,
            "tensor \"x\" has data_offsets [4], expected [begin, end] with begin <= end"},
           {floats("[1]", "[4,0]"), four,
            "tensor \"x\" has data_offsets [4, 0], expected [begin, end] with begin <= end"},
           {floats("[3]", "[0,4]"), four, "tensor \"x\" of shape [3] has 4 bytes, expected 12"},
           {floats("[4294967296,4294967296]", "[0,0]"), "",
            "tensor \"x\" of shape [4294967296, 4294967296] has more elements than memory could "
            "ever hold"},
           {floats("[0,18446744073709551615]", "[0,0]"), "",
            "tensor \"x\" of shape [0, 18446744073709551615] has more elements than memory could "
            "ever hold"},
           {floats("[1]", "[0,4]"), "",
            "truncated: the tensors have 4 bytes, but the file contains only 0"},
           {floats("[1]", "[18446744073709551608,18446744073709551612]"), four,
            "bytes 0 to 18446744073709551608 of the data belong to no tensor"},
           {"{}", four, "4 bytes follow the last tensor"},
           {floats("[1]", "[0,4]"), eight, "4 bytes follow the last tensor"},
           {floats("[1]", "[4,8]"), eight, "bytes 0 to 4 of the data belong to no tensor"},
           {two("[0,4]", "[8,12]"), eight + four, "bytes 4 to 8 of the data belong to no tensor"},
           {two("[0,4]", "[2,6]"), eight, "tensor \"y\" overlaps another tensor"},
           {two("[0,4]", "[0,4]"), four, "tensor \"y\" overlaps another tensor"}})
    EXPECT_ERROR(std::runtime_error, path_ + ": " + item.message,
                 read(safetensors(item.header, item.data)));
  for (const auto& item : std::map<std::string, std::string>{
           {"1234567", "not a safetensors file: it has 7 bytes, expected at least 8"},
           {"A story, not tensors.",
            "not a safetensors file: its header would have 3204718432871456833 bytes, but the "
            "format allows at most 100000000"},
           {bytes_of(std::uint64_t{100'000'001}),
            "not a safetensors file: its header would have 100000001 bytes, but the format allows "
            "at most 100000000"},
           {bytes_of(std::uint64_t{100'000'000}) + "{}",
            "truncated: the header has 100000000 bytes, but the file contains only 2"}})
    EXPECT_ERROR(std::runtime_error, path_ + ": " + item.second, read(item.first));
}

TEST_F(Safetensors, ErrorsTruncateLongNames) {
  const std::string name(1'000'000, 'x');
  std::string list = "[1";
  for (int i = 1; i < 100'000; ++i) list += ",1";
  list += ']';
  for (const std::string& header :
       {"{\"" + name + "\":{}}", "{\"" + name + "\":1,\"" + name + "\":1}",
        header_of(name, "[]", "[0,4]"), header_of("F32", list, "[0,8]"),
        header_of("F32", "[]", list)}) {
    const std::string message =
        error_of<std::runtime_error>([&] { read(safetensors(header, "")); });
    EXPECT_TRUE(message.starts_with(path_ + ": ")) << message;
    EXPECT_LT(message.size(), path_.size() + 200);
  }
}

TEST_F(Safetensors, AreWrittenAndReadAtomicallyIfMemoryRunsOut) {
  const std::string before = "what was there";
  StateDict state;
  state.put("token.weight", irregular({5, 3}));
  state.put("steps", 3);
  state.put("rates", std::vector<double>{0.1, 0.2});
  state.put("note", "in \"quotes\"");
  write_safetensors(path_, state);
  const std::string after = read_file(path_);
  const std::string read_back = bits_of(read_safetensors(path_));
  for_every_failure(
      [&] {
        write_file(path_, before);
        return std::make_unique<std::filesystem::path>(path_);
      },
      [&](const std::filesystem::path& path) { write_safetensors(path, state); },
      [&](const std::filesystem::path& path, bool finished) {
        EXPECT_EQ(read_file(path), finished ? after : before);
        const std::filesystem::directory_iterator all(folder_.path());
        EXPECT_EQ(std::distance(begin(all), end(all)), 1) << "temporary files are left over";
      });
  write_file(path_, after);
  for_every_failure([] { return std::make_unique<StateDict>(); },
                    [&](StateDict& file) { file = read_safetensors(path_); },
                    [&](const StateDict& file, bool finished) {
                      EXPECT_TRUE(bits_of(file) == (finished ? read_back : ""));
                    });
}

TEST_F(Safetensors, TakesTimeInProportionToTheNumberOfTensors) {
  constexpr std::size_t kTensors = 40'000;
  StateDict written;
  for (std::size_t i = 0; i < kTensors; ++i) {
    written.put("layer." + std::to_string(i), scalar(1));
    written.put("key " + std::to_string(i), "text");
  }
  // Takes 0.1 s; comparing each tensor with all others would take half a minute.
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(written_and_read(written).names().size(), 2 * kTensors); }),
            5.0);
}

}  // namespace
