#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

using nlohmann::json;

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
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string_view> names = {kMetadataKey};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check_argument(tensor != nullptr, "write_safetensors: tensor \"", name, "\" is null");
    check_argument(names.insert(name).second, "write_safetensors: the name \"", name,
                   "\" is taken already");
    const std::uint64_t end = offset + bytes_of(*tensor).size();
    header[name] = {{"dtype", kDtype},
                    {"shape", std::vector(tensor->shape().begin(), tensor->shape().end())},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    return header.dump();
  } catch (const json::type_error& error) {
    throw std::invalid_argument(
        concat("write_safetensors: a name or text is not UTF-8: ", error.what()));
  }
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
    const json header = parse(text);
    SafetensorsFile result;
    std::vector<Entry> entries;
    for (const auto& [name, description] : header.items()) {
      if (name == kMetadataKey) {
        result.metadata = parse_metadata(description);
      } else {
        entries.push_back(parse_entry(name, description));
      }
    }
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

  json parse(const std::string& text) const {
    std::vector<std::set<std::string>> open;  // the keys seen of every object we are in
    const auto inspect = [&](int depth, json::parse_event_t event, json& parsed) {
      switch (event) {
        case json::parse_event_t::object_start:
          open.emplace_back();
          [[fallthrough]];
        case json::parse_event_t::array_start:
          // {"name": {"shape": [] }} is as deep as it goes; more would only cost memory.
          check(depth <= 2, "the header is nested too deep");
          break;
        case json::parse_event_t::object_end:
          open.pop_back();
          break;
        case json::parse_event_t::key:
          check(open.back().insert(parsed.get<std::string>()).second, "the header has the key ",
                parsed.dump(), " twice");
          break;
        default:
          break;
      }
      return true;
    };
    try {
      return json::parse(text, inspect);
    } catch (const json::parse_error& error) {
      check(false, "the header is not JSON: error at byte ", error.byte);
      throw;
    }
  }

  Metadata parse_metadata(const json& description) const {
    const bool valid =
        description.is_object() && std::all_of(description.begin(), description.end(),
                                               [](const json& text) { return text.is_string(); });
    check(valid, "the metadata must be an object of strings");
    return description.get<Metadata>();
  }

  Entry parse_entry(const std::string& name, const json& description) const {
    const auto unsigned_numbers = [](const json& value) {
      return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& number) {
               return number.is_number_unsigned();
             });
    };
    const auto field = [&](const char* key) {
      check(description.is_object() && description.contains(key), "tensor \"", name, "\" has no ",
            key);
      return description[key];
    };

    const json dtype = field("dtype"), shape = field("shape"), offsets = field("data_offsets");
    check(dtype == "F32" || dtype == "F64", "tensor \"", name, "\" has the dtype ", dtype.dump(),
          "; only F32 and F64 are supported");
    check(unsigned_numbers(shape), "tensor \"", name, "\" has the shape ", shape.dump());
    check(unsigned_numbers(offsets) && offsets.size() == 2 && offsets[0] <= offsets[1], "tensor \"",
          name, "\" has the data_offsets ", offsets.dump());

    Entry entry{name, dtype == "F64", Shape(shape.begin(), shape.end()), offsets[0], offsets[1]};
    const std::uint64_t needed = byte_count(entry);
    check(entry.end - entry.begin == needed, "tensor \"", name, "\" of shape ",
          bracketed(entry.shape), " needs ", needed, " bytes, but has ", entry.end - entry.begin);
    return entry;
  }

  std::uint64_t byte_count(const Entry& entry) const {
    const auto count = checked_element_count(entry.shape);
    check(count.has_value(), "tensor \"", entry.name, "\" has the impossible shape ",
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
      check(entry.begin >= covered, "tensor \"", entry.name, "\" overlaps another one");
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
