#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/json_reader.hpp>
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/core/tensor/utf8.hpp>

namespace rowgrad {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are written and read as they lie in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kDtype = sizeof(real) == 4 ? "F32" : "F64";

std::string_view bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(real)};
}

std::string header_text(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  const auto quoted = [](std::string_view text) {
    check_utf8("write_safetensors: a name or text", text);
    return json_string(text);
  };
  std::string members;  // each with a comma behind it
  if (!metadata.empty()) {
    members += quoted(kMetadataKey) + ":{";
    for (const auto& [key, text] : metadata) members += quoted(key) + ':' + quoted(text) + ',';
    members.back() = '}';
    members += ',';
  }
  std::set<std::string_view> names = {kMetadataKey};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check_argument(tensor != nullptr, "write_safetensors: tensor ", in_quotes(name), " is null");
    check_argument(names.insert(name).second, "write_safetensors: the name ", in_quotes(name),
                   " is taken already");
    std::string shape;
    for (const std::size_t extent : tensor->shape()) shape += std::to_string(extent) + ',';
    if (!shape.empty()) shape.pop_back();
    const std::uint64_t end = offset + bytes_of(*tensor).size();
    members += concat(quoted(name), ":{\"dtype\":\"", kDtype, "\",\"shape\":[", shape,
                      "],\"data_offsets\":[", offset, ',', end, "]},");
    offset = end;
  }
  if (!members.empty()) members.pop_back();
  return '{' + members + '}';
}

// One tensor as the header describes it.
struct Entry {
  std::string name;
  bool is_double;
  Shape shape;
  std::uint64_t begin, end;  // bytes, from where the data starts
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}

  SafetensorsFile read() const {
    const std::string text = read_header();
    const std::uint64_t data_start = kLengthBytes + text.size();
    SafetensorsFile result;
    std::vector<Entry> entries;
    JsonReader header(text, concat(file_.path().string(), ": the header"));
    header.object([&](const std::string& name) {
      if (name == kMetadataKey) {
        header.object([&](const std::string& key) { result.metadata[key] = header.string(); });
      } else {
        entries.push_back(read_entry(header, name));
      }
    });
    check_coverage(entries, file_.size_bytes() - data_start);
    for (Entry& entry : entries) {
      Tensor tensor = empty(entry.shape);
      if (entry.is_double) {
        read_numbers<double>(data_start + entry.begin, tensor);
      } else {
        read_numbers<float>(data_start + entry.begin, tensor);
      }
      result.tensors.emplace(std::move(entry.name), std::move(tensor));
    }
    return result;
  }

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      check_runtime(false, file_.path().string(), ": ", parts...);
  }

  std::string read_header() const {
    const std::uint64_t size = file_.size_bytes();
    check(size >= kLengthBytes, "not a safetensors file: it has ", size, " bytes");
    std::uint64_t length = 0;
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    check(length <= kLongestHeader, "not a safetensors file: its header would have ", length,
          " bytes, more than the ", kLongestHeader, " that the format allows");
    check(length <= size - kLengthBytes, "truncated: the header has ", length,
          " bytes, of which the file holds ", size - kLengthBytes);
    std::string text(length, '\0');
    file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
    check(text.starts_with('{'), "not a safetensors file: its header is not a JSON object");
    return text;
  }

  Entry read_entry(JsonReader& header, const std::string& name) const {
    std::optional<std::string> dtype;
    std::optional<std::vector<std::uint64_t>> shape, offsets;
    const auto read_numbers = [&] {
      std::vector<std::uint64_t> numbers;
      header.array([&] { numbers.push_back(header.whole_number()); });
      return numbers;
    };
    header.object([&](const std::string& key) {
      if (key == "dtype") {
        dtype = header.string();
      } else if (key == "shape") {
        shape = read_numbers();
      } else if (key == "data_offsets") {
        offsets = read_numbers();
      } else {
        header.skip();
      }
    });
    check(dtype && shape && offsets, "tensor ", in_quotes(name), " has no ",
          !dtype   ? "dtype"
          : !shape ? "shape"
                   : "data_offsets");
    check(dtype == "F32" || dtype == "F64", "tensor ", in_quotes(name), " has the dtype ",
          in_quotes(*dtype), "; only F32 and F64 are supported");
    check(offsets->size() == 2 && offsets->front() <= offsets->back(), "tensor ", in_quotes(name),
          " has the data_offsets ", bracketed(*offsets));

    Entry entry{name, dtype == "F64", Shape(shape->begin(), shape->end()), offsets->front(),
                offsets->back()};
    const std::uint64_t needed = byte_count(entry);
    check(entry.end - entry.begin == needed, "tensor ", in_quotes(name), " of shape ",
          bracketed(entry.shape), " needs ", needed, " bytes, but has ", entry.end - entry.begin);
    return entry;
  }

  std::uint64_t byte_count(const Entry& entry) const {
    const auto count = checked_element_count(entry.shape);
    check(count.has_value(), "tensor ", in_quotes(entry.name), " has the impossible shape ",
          bracketed(entry.shape));
    return *count * (entry.is_double ? sizeof(double) : sizeof(float));
  }

  // Every byte of the data belongs to exactly one tensor.
  void check_coverage(std::vector<Entry>& entries, std::uint64_t data_bytes) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
      check(entry.begin >= covered, "tensor ", in_quotes(entry.name), " overlaps another one");
      check(entry.begin == covered, "the bytes ", covered, " to ", entry.begin,
            " of the data belong to no tensor");
      covered = entry.end;
    }
    check(data_bytes >= covered, "truncated: the tensors have ", covered,
          " bytes, of which the file holds ", data_bytes);
    check(data_bytes == covered, data_bytes - covered, " bytes follow the last tensor");
  }

  template <class Stored>
  void read_numbers(std::uint64_t offset, Tensor& tensor) const {
    if constexpr (std::is_same_v<Stored, real>) {
      file_.read(offset, std::as_writable_bytes(std::span(tensor.data(), tensor.size())));
    } else {
      std::vector<Stored> stored(tensor.size());
      file_.read(offset, std::as_writable_bytes(std::span(stored)));
      std::transform(stored.begin(), stored.end(), tensor.data(),
                     [](Stored number) { return static_cast<real>(number); });
    }
  }

  InputFile file_;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata) {
  std::string header = header_text(tensors, metadata);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  check_argument(header.size() <= kLongestHeader, "write_safetensors: the header would have ",
                 header.size(), " bytes, more than the ", kLongestHeader,
                 " that the format allows");

  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(std::uint64_t{header.size()});
  std::vector<std::string_view> pieces = {{length.data(), length.size()}, header};
  for (const auto& [name, tensor] : tensors) pieces.push_back(bytes_of(*tensor));
  write_file(path, pieces);
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace rowgrad
