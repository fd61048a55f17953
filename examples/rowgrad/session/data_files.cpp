#include <cstdlib>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

// A file published by others.
struct PublishedFile {
  const char* name;
  const char* title;
  const char* checksum;
};

constexpr PublishedFile kVerdict{"the-verdict.txt", "The Verdict", "57ae406b69154244"};
constexpr PublishedFile kMerges{"vocab.bpe", "GPT-2's vocab.bpe", "2296d4cef2b12eb0"};
constexpr PublishedFile kEncoder{"encoder.json", "GPT-2's encoder.json", "de236a4dfbfc48db"};

// Returns the value of an environment variable, or nullopt if it is unset or empty.
std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<fs::path> cache_folder() {
  // The XDG specification says to ignore relative paths.
  const auto cache = environment("XDG_CACHE_HOME");
  if (cache && fs::path(*cache).is_absolute()) return fs::path(*cache) / "rowgrad";
  if (const auto home = environment("HOME")) return fs::path(*home) / ".cache" / "rowgrad";
  return std::nullopt;
}

std::string read_text(const fs::path& path) {
  std::string contents = without_byte_order_mark(read_file(path), path.string());
  check_runtime(!contents.empty(), path.string(), " is empty");
  return contents;
}

std::optional<DataFile> from_user_folder(const PublishedFile& file) {
  const auto folder = environment("ROWGRAD_DATA");
  if (!folder) return std::nullopt;
  std::error_code unknown;
  check_runtime(fs::is_directory(*folder, unknown), "$ROWGRAD_DATA: got ", *folder,
                ", expected a folder");
  const fs::path path = fs::path(*folder) / file.name;
  if (!file_exists(path)) return std::nullopt;
  std::string contents = read_text(path);
  const bool is_published = checksum(contents) == file.checksum;
  const char* title = is_published ? file.title : file.name;
  return DataFile{title,
                  concat(title, ", from $ROWGRAD_DATA (", path.string(), ')',
                         is_published ? "" : "; it differs from the published file"),
                  std::move(contents)};
}

DataFile find_published(const PublishedFile& file) {
  if (auto found = from_user_folder(file)) return *std::move(found);
  const auto folder = cache_folder();
  const std::string path = folder ? (*folder / file.name).string() : "no $HOME";
  try {
    std::string contents = folder ? read_file(path) : "";
    if (checksum(contents) == file.checksum)
      return {file.title, concat(file.title, ", from the cache (", path, ')'), std::move(contents)};
  } catch (const std::runtime_error&) {  // an unreadable cache is treated as empty
  }
  throw Unavailable(concat(file.title, " is neither in $ROWGRAD_DATA nor in the cache (", path,
                           "); examples/texts.sh (installed in share/doc/rowgrad) downloads it"));
}

}  // namespace

std::string without_byte_order_mark(std::string text, const std::string& name) {
  if (text.starts_with(kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());
    std::cerr << name << ": skipped the byte order mark" << std::endl;
  }
  return text;
}

DataFile find_corpus(const fs::path& chosen) {
  if (!chosen.empty()) return {chosen.filename().string(), chosen.string(), read_text(chosen)};
  try {
    return find_published(kVerdict);
  } catch (const Unavailable& reason) {
    return {"The Slow Clock",
            concat("The Slow Clock, the story built into rowgrad (", reason.what(), ")"),
            std::string(kBuiltinStory)};
  }
}

Gpt2Files find_gpt2_files() {
  return {.merges = find_published(kMerges), .encoder = find_published(kEncoder)};
}

std::vector<fs::path> published_places() {
  std::vector<fs::path> places;
  for (const PublishedFile& file : {kVerdict, kMerges, kEncoder}) {
    if (const auto given = environment("ROWGRAD_DATA"))
      places.push_back(fs::path(*given) / file.name);
    if (const auto cache = cache_folder()) places.push_back(*cache / file.name);
  }
  return places;
}

std::string checksum(std::string_view text) {
  Checksum sum;
  sum.add(text);
  return checksum_digits(sum.value());
}

}  // namespace rowgrad
