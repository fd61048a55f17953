#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>

namespace rowgrad {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and elements are copied without conversion");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the format
constexpr const char* kMetadataKey = "__metadata__";
// Keys in the metadata of files that rowgrad wrote. If a flipped bit changes one of the keys, the
// other key still shows that rowgrad wrote the file. Format 1, of version 0.2.0, has no checksum.
constexpr const char* kFormatKey = "rowgrad_format";
constexpr const char* kChecksumKey = "rowgrad_checksum";
constexpr std::string_view kFormat = "2", kLegacyFormat = "1";
constexpr std::size_t kBlockBytes = std::size_t{1} << 18;  // fits in the L2 cache

// Returns the beginning of a header of format 2, up to the digits of the checksum. The checksum
// covers the length of the header, the header with zeros in place of these digits, and the
// checksums of the tensors' blocks. Several threads read and hash the blocks.
std::string header_begin() {
  return concat('{', json_string(kMetadataKey), ":{", json_string(kFormatKey), ':',
                json_string(kFormat), ',', json_string(kChecksumKey), ":\"");
}

constexpr std::string_view kNoDigits = "0000000000000000";

std::string_view view_of(const std::uint64_t& length) {
  return {reinterpret_cast<const char*>(&length), sizeof length};
}

void add_to(Checksum& sum, std::string_view bytes) {
  sum.add_bytes(std::as_bytes(std::span(bytes)));
}

// Calls use(offset, block) for each block of a tensor, and adds the blocks' checksums to `sum`.
template <class Byte>
void for_each_block(std::span<Byte> bytes, Checksum& sum, const auto& use) {
  const std::size_t blocks = (bytes.size() + kBlockBytes - 1) / kBlockBytes;
  const std::size_t ranges = range_count(blocks, 1);
  std::vector<std::uint64_t> sums(blocks);
  run_ranges(
      ranges, FunctionRef([&](std::size_t range) {
        for (std::size_t i = blocks * range / ranges; i < blocks * (range + 1) / ranges; ++i) {
          const std::size_t offset = i * kBlockBytes;
          const auto block = bytes.subspan(offset, std::min(kBlockBytes, bytes.size() - offset));
          use(offset, block);
          Checksum of_block(i);
          of_block.add_bytes(block);
          sums[i] = of_block.value();
        }
      }));
  sum.add_bytes(std::as_bytes(std::span(sums)));
}

// IEEE 754 half precision: 1 sign bit, 5 exponent bits with a bias of 15, 10 fraction bits.
struct Half {
  std::uint16_t bits;
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7FFFU) << 13;
    if (rest >= 0x0F800000U)  // infinity or NaN
      return std::bit_cast<float>(sign | 0x7F800000U | rest);
    // Multiplying by 2^112 corrects the exponent's bias, even for subnormal numbers.
    return std::bit_cast<float>(
        sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) * 0x1p112F));
  }
};

// bfloat16: the upper half of a float.
struct BrainFloat {
  std::uint16_t bits;
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// A value as described by the header.
struct Entry {
  std::string name;
  std::string dtype;
  Shape shape;
  std::uint64_t begin, end;  // in bytes from the start of the data
};

class Reader {
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      check_runtime(false, file_.path().string(), ": ", parts...);
  }

  // Calls body with a value of the entry's type.
  auto with_type(const Entry& entry, const auto& body) const {
    const std::string& dtype = entry.dtype;
    if (dtype == "F16") return body(Half());
    if (dtype == "BF16") return body(BrainFloat());
    if (dtype == "F32") return body(float());
    if (dtype == "F64") return body(double());
    if (dtype == "I8") return body(std::int8_t());
    if (dtype == "I16") return body(std::int16_t());
    if (dtype == "I32") return body(std::int32_t());
    if (dtype == "I64") return body(std::int64_t());
    if (dtype == "U16") return body(std::uint16_t());
    if (dtype == "U32") return body(std::uint32_t());
    if (dtype == "U64") return body(std::uint64_t());
    check(dtype == "U8" || dtype == "BOOL", "tensor ", in_quotes(entry.name), " has dtype ",
          in_quotes(dtype), ", expected F16, BF16, F32, F64, I8 to I64, U8 to U64 or BOOL");
    return body(std::uint8_t());
  }

  template <class Number>
  StateDict::Value read_value(const Entry& entry) {
    const std::uint64_t offset = data_start_ + entry.begin;
    const std::size_t count = (entry.end - entry.begin) / sizeof(Number);
    const auto read_to = [&](Number* values) {
      for_each_block(
          std::as_writable_bytes(std::span(values, count)), sum_,
          [&](std::size_t at, std::span<std::byte> block) { file_.read(offset + at, block); });
    };
    if constexpr (std::is_same_v<Number, real>) {
      Tensor tensor = empty(entry.shape);
      read_to(tensor.data());
      return tensor;
    }
    std::vector<Number> values(count);
    read_to(values.data());
    if constexpr (std::is_integral_v<Number>) {
      for (const Number value : values)
        check(std::in_range<std::int64_t>(value), "tensor ", in_quotes(entry.name), " has element ",
              value, ", expected at most ", std::numeric_limits<std::int64_t>::max());
      return StateDict::Integers{entry.shape, {values.begin(), values.end()}};
    } else if constexpr (std::is_same_v<Number, double>) {
      return StateDict::Doubles{entry.shape, std::move(values)};
    } else {
      Tensor tensor = empty(entry.shape);
      std::ranges::transform(values, tensor.data(),
                             [](Number value) { return static_cast<float>(value); });
      return tensor;
    }
  }

 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}

  // Reads the strings and the wanted values. A null pointer means all values; a null function means
  // no values.
  StateDict read(const WantedValues* wanted) {
    std::string header_text = read_header();
    data_start_ = kLengthBytes + header_text.size();
    StateDict result;
    std::vector<Entry> entries;
    const Json header(header_text, concat(file_.path().string(), ": the header"));
    std::optional<std::string> format;
    if (const Json* texts = header.find(kMetadataKey)) {
      for (const auto& [key, text] : texts->members())
        if (key == kFormatKey)
          format = text.string();
        else if (key == kChecksumKey)
          written_ = text.string();
        else
          result.put(key, text.string());
    }
    check_format(format);
    if (wanted != nullptr && !*wanted) return result;
    if (written_) begin_sum(std::move(header_text));
    for (const auto& [name, value] : header.members())
      if (name != kMetadataKey) entries.push_back(read_entry(name, value));
    check_coverage(entries, file_.size_bytes() - data_start_);
    for (const Entry& entry : entries) {  // in the order of the data
      if (wanted != nullptr && !(*wanted)(entry.name, entry.shape)) continue;
      check(!result.contains(entry.name), "tensor ", in_quotes(entry.name),
            " has the same name as a string in the metadata");
      result.put(entry.name, with_type(entry, [&](auto number) -> StateDict::Value {
                   return read_value<decltype(number)>(entry);
                 }));
    }
    if (wanted != nullptr) return result;
    const std::string found = checksum_digits(sum_.value());
    check(!written_ || found == *written_, "is damaged: its checksum is ", found, ", expected ",
          written_.value_or(""), "; if another program changed it, remove ", kFormatKey, " and ",
          kChecksumKey, " from its metadata");
    return result;
  }

 private:
  std::string read_header() const {
    const std::uint64_t size = file_.size_bytes();
    check(size >= kLengthBytes, "not a safetensors file: it has ", size,
          " bytes, expected at least ", kLengthBytes);
    std::uint64_t length = 0;
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    check(length <= kLongestHeader, "not a safetensors file: its header would have ", length,
          " bytes, but the format allows at most ", kLongestHeader);
    check(length <= size - kLengthBytes, "truncated: the header has ", length,
          " bytes, but the file contains only ", size - kLengthBytes);
    std::string text(length, '\0');
    file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
    check(text.starts_with('{'), "not a safetensors file: its header is not a JSON object");
    return text;
  }

  void check_format(const std::optional<std::string>& format) const {
    check(!format || format == kFormat || format == kLegacyFormat, "has ", kFormatKey, ' ',
          in_quotes(format.value_or("")), ", but this version of rowgrad reads only \"",
          kLegacyFormat, "\" and \"", kFormat, "\", and files of other programs");
    check(written_.has_value() == (format == kFormat), "is damaged: it has only one of ",
          kFormatKey, " \"", kFormat, "\" and ", kChecksumKey);
  }

  void begin_sum(std::string header) {
    const std::string begin = header_begin();
    check(header.starts_with(begin) && header.size() - begin.size() >= kNoDigits.size(),
          "is damaged: its header does not begin with ", kFormatKey, " and ", kChecksumKey);
    header.replace(begin.size(), kNoDigits.size(), kNoDigits);
    const std::uint64_t length = header.size();
    add_to(sum_, view_of(length));
    add_to(sum_, header);
  }

  Entry read_entry(const std::string& name, const Json& described) const {
    const auto required = [&](const char* key) -> const Json& {
      const Json* found = described.find(key);
      check(found != nullptr, "tensor ", in_quotes(name), " has no ", key);
      return *found;
    };
    const std::string& dtype = required("dtype").string();
    const std::vector<std::uint64_t> shape = required("shape").whole_numbers();
    const std::vector<std::uint64_t> offsets = required("data_offsets").whole_numbers();
    check(offsets.size() == 2 && offsets.front() <= offsets.back(), "tensor ", in_quotes(name),
          " has data_offsets ", bracketed(offsets), ", expected [begin, end] with begin <= end");

    const Entry entry{name, dtype, Shape(shape.begin(), shape.end()), offsets.front(),
                      offsets.back()};
    const auto count = checked_element_count(entry.shape);
    check(count.has_value(), "tensor ", in_quotes(name), " of shape ", bracketed(entry.shape),
          " has more elements than memory could ever hold");
    const std::uint64_t needed =
        *count * with_type(entry, [](auto number) { return sizeof(number); });
    check(entry.end - entry.begin == needed, "tensor ", in_quotes(name), " of shape ",
          bracketed(entry.shape), " has ", entry.end - entry.begin, " bytes, expected ", needed);
    return entry;
  }

  // Checks that every byte of the data belongs to exactly one tensor.
  void check_coverage(std::vector<Entry>& entries, std::uint64_t data_bytes) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
      check(entry.begin >= covered, "tensor ", in_quotes(entry.name), " overlaps another tensor");
      check(entry.begin == covered, "bytes ", covered, " to ", entry.begin,
            " of the data belong to no tensor");
      covered = entry.end;
    }
    check(data_bytes >= covered, "truncated: the tensors have ", covered,
          " bytes, but the file contains only ", data_bytes);
    check(data_bytes == covered, data_bytes - covered, " bytes follow the last tensor");
  }

  InputFile file_;
  std::uint64_t data_start_ = 0;
  std::optional<std::string> written_;  // the checksum in the file, if any
  Checksum sum_;                        // the checksum of everything read so far
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, const StateDict& state) {
  const auto quoted = [](std::string_view text) {
    check_utf8("write_safetensors: a name or string", text);
    return json_string(text);
  };
  const std::vector<std::string> names = state.names();
  std::string header = concat(header_begin(), kNoDigits, '"');
  for (const std::string& name : names) {
    check_argument(name != kMetadataKey, "write_safetensors: the name ", in_quotes(name),
                   " is reserved");
    const auto* text = std::get_if<std::string>(&state.at(name));
    if (text == nullptr) continue;
    for (const char* key : {kFormatKey, kChecksumKey})
      check_argument(name != key, "write_safetensors: the name ", in_quotes(name),
                     " is reserved, expected another name for a string");
    header += concat(',', quoted(name), ':', quoted(*text));
  }
  header += '}';

  std::vector<std::string_view> pieces(2);  // length of the header, header, and values
  std::uint64_t offset = 0;
  // Writes larger types first, so that values are aligned, as required to map the file into memory.
  for (const std::size_t number_bytes : {8, 4})
    for (const std::string& name : names) {
      const auto store = [&](const char* dtype, const Shape& shape, const auto& values) {
        if (sizeof values[0] != number_bytes) return;
        pieces.emplace_back(reinterpret_cast<const char*>(values.data()),
                            values.size() * number_bytes);
        std::string extents;
        for (const std::size_t extent : shape)
          extents += concat(extents.empty() ? "" : ",", extent);
        const std::uint64_t end = offset + pieces.back().size();
        header += concat(',', quoted(name), ":{\"dtype\":\"", dtype, "\",\"shape\":[", extents,
                         "],\"data_offsets\":[", offset, ',', end, "]}");
        offset = end;
      };
      const StateDict::Value& value = state.at(name);
      if (const auto* tensor = std::get_if<Tensor>(&value))
        store(sizeof(real) == 4 ? "F32" : "F64", tensor->shape(), tensor->storage());
      else if (const auto* whole = std::get_if<StateDict::Integers>(&value))
        store("I64", whole->shape, whole->values);
      else if (const auto* doubles = std::get_if<StateDict::Doubles>(&value))
        store("F64", doubles->shape, doubles->values);
    }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  check_argument(header.size() <= kLongestHeader, "write_safetensors: the header would have ",
                 header.size(), " bytes, but the format allows at most ", kLongestHeader);

  const std::uint64_t length = header.size();
  pieces[0] = view_of(length);
  pieces[1] = header;
  Checksum sum;
  add_to(sum, pieces[0]);
  add_to(sum, pieces[1]);
  for (const std::string_view data : std::span(pieces).subspan(2))
    for_each_block(std::as_bytes(std::span(data)), sum, [](std::size_t, const auto&) {});
  const std::string digits = checksum_digits(sum.value());
  std::ranges::copy(digits, header.begin() + static_cast<std::ptrdiff_t>(header_begin().size()));
  write_file(path, pieces);
}

StateDict read_safetensors(const std::filesystem::path& path) { return Reader(path).read(nullptr); }

StateDict read_safetensors(const std::filesystem::path& path, const WantedValues& wanted) {
  return Reader(path).read(&wanted);
}

StateDict read_safetensors_metadata(const std::filesystem::path& path) {
  return read_safetensors(path, nullptr);
}

}  // namespace rowgrad
