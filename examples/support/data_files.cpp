#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <openssl/evp.h>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/builtin_story.hpp>
#include <rowgrad/examples/support/data_files.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

const PublishedFile kVerdict = {
    .name = "the-verdict.txt",
    .title = "The Verdict",
    .url =
        "https://raw.githubusercontent.com/rasbt/LLMs-from-scratch/main/ch02/"
        "01_main-chapter-code/the-verdict.txt",
    .sha256 = "b41e41a68f0398a3154ae69e2e4c0e2694e17fe0d66730536837f1b01935b31f"};

const PublishedFile kGpt2Merges = {
    .name = "vocab.bpe",
    .title = "GPT-2's vocab.bpe",
    .url = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe",
    .sha256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"};

const PublishedFile kGpt2Encoder = {
    .name = "encoder.json",
    .title = "GPT-2's encoder.json",
    .url = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json",
    .sha256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"};

constexpr auto kRetryAfter = std::chrono::minutes(10);

// The value of a variable that is set and not empty.
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
  std::string contents = read_file(path);
  check_runtime(!contents.empty(), path.string(), " is empty");
  return contents;
}

std::optional<DataFile> from_user_folder(const PublishedFile& file) {
  const auto folder = environment("ROWGRAD_DATA");
  if (!folder) return std::nullopt;
  std::error_code unknown;
  check_runtime(fs::is_directory(*folder, unknown), "$ROWGRAD_DATA is ", *folder,
                ", which is no folder");
  const fs::path path = fs::path(*folder) / file.name;
  if (!file_exists(path)) return std::nullopt;
  std::string contents = read_text(path);
  if (sha256(contents) == file.sha256)
    return DataFile{file.title, concat(file.title, ", from $ROWGRAD_DATA (", path.string(), ')'),
                    std::move(contents)};
  return DataFile{file.name,
                  concat(file.name, ", from $ROWGRAD_DATA (", path.string(),
                         "); its SHA-256 is not that of ", file.title, " as published"),
                  std::move(contents)};
}

// Of the bytes that `add_all` passes to the function that it gets.
std::string sha256_of(
    const std::function<void(std::function<void(std::span<const std::byte>)>)>& add_all) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  bool done = context != nullptr && EVP_DigestInit(context.get(), EVP_sha256()) == 1;
  add_all([&](std::span<const std::byte> bytes) {
    done = done && EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1;
  });
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  check_runtime(done && EVP_DigestFinal(context.get(), digest.data(), &length) == 1,
                "OpenSSL cannot compute a SHA-256");
  std::string digits;
  for (unsigned i = 0; i < length; ++i)
    digits += {"0123456789abcdef"[digest[i] >> 4], "0123456789abcdef"[digest[i] & 15]};
  return digits;
}

// The cached copy of a published file. Without access to the cache, the only cost is a download.
class CachedFile {
 public:
  explicit CachedFile(const PublishedFile& file) : file_(file) {
    if (const auto folder = cache_folder()) {
      path_ = *folder / file.name;
      stamp_ = *folder / (file.name + ".failed");
    }
  }

  std::string place() const { return path_.empty() ? "no $HOME" : path_.string(); }

  std::optional<std::string> contents() const {
    try {
      std::string contents = read_file(path_);
      if (sha256(contents) == file_.sha256) return contents;
    } catch (const std::runtime_error&) {
    }
    return std::nullopt;
  }

  // Returns whether the contents are now in the cache.
  bool keep(const std::string& contents) const {
    std::error_code ignored;
    fs::remove(stamp_, ignored);
    return write(path_, contents);
  }

  void remember_failure(const std::string& reason) const { write(stamp_, reason); }

  std::optional<std::string> recent_failure() const {
    try {
      const auto age = fs::file_time_type::clock::now() - fs::last_write_time(stamp_);
      if (age < std::chrono::seconds(0) || age >= kRetryAfter) return std::nullopt;
      return read_file(stamp_);
    } catch (const std::runtime_error&) {
      return std::nullopt;
    }
  }

 private:
  static bool write(const fs::path& path, const std::string& contents) {
    if (path.empty()) return false;
    try {
      fs::create_directories(path.parent_path());
      write_file(path, contents);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }

  const PublishedFile& file_;
  fs::path path_;   // empty if there is no cache
  fs::path stamp_;  // written when a download fails, with the reason
};

}  // namespace

const std::vector<PublishedFile>& published_files() {
  static const std::vector<PublishedFile> files{kVerdict, kGpt2Merges, kGpt2Encoder};
  return files;
}

std::vector<fs::path> published_places() {
  std::vector<fs::path> folders;
  if (const auto given = environment("ROWGRAD_DATA")) folders.push_back(*given);
  if (const auto cache = cache_folder()) folders.push_back(*cache);
  std::vector<fs::path> places;
  for (const fs::path& folder : folders)
    for (const PublishedFile& file : published_files()) places.push_back(folder / file.name);
  return places;
}

std::string sha256(const std::string& contents) {
  return sha256_of([&](const auto& add) { add(std::as_bytes(std::span(contents))); });
}

std::string sha256(const InputFile& file) {
  return sha256_of([&](const auto& add) {
    std::vector<std::byte> block(1 << 20);
    for (std::uint64_t offset = 0; offset < file.size_bytes(); offset += block.size()) {
      block.resize(std::min<std::uint64_t>(file.size_bytes() - offset, block.size()));
      file.read(offset, block);
      add(block);
    }
  });
}

DataFile find_published(const PublishedFile& file, const Download& fetch) {
  if (auto found = from_user_folder(file)) return *std::move(found);

  const CachedFile cached(file);
  if (auto contents = cached.contents())
    return {file.title, concat(file.title, ", from the cache (", cached.place(), ')'),
            *std::move(contents)};

  const auto unavailable = [&](const std::string& obstacle) {
    return Unavailable(concat(file.title, " is not in $ROWGRAD_DATA, not in the cache (",
                              cached.place(), "), and ", obstacle));
  };
  if (environment("ROWGRAD_OFFLINE").value_or("0") != "0")
    throw unavailable("ROWGRAD_OFFLINE forbids its download");
  if (const auto reason = cached.recent_failure())
    throw unavailable(concat("its download failed less than ten minutes ago (", *reason, ')'));
  try {
    std::string contents = fetch(file.url);
    check_runtime(sha256(contents) == file.sha256, file.url,
                  " no longer holds the file with the known SHA-256");
    std::string source = concat(file.title, ", downloaded from ", file.url);
    if (cached.keep(contents)) source += concat(", kept as ", cached.place());
    return {file.title, std::move(source), std::move(contents)};
  } catch (const std::runtime_error& error) {
    cached.remember_failure(error.what());
    throw unavailable(concat("its download failed (", error.what(), ')'));
  }
}

DataFile find_corpus(const fs::path& chosen, const Download& fetch) {
  if (!chosen.empty()) return {chosen.filename().string(), chosen.string(), read_text(chosen)};
  try {
    return find_published(kVerdict, fetch);
  } catch (const Unavailable& reason) {
    return {std::string(kBuiltinStoryTitle),
            concat(kBuiltinStoryTitle, ", the story that comes with rowgrad: ", reason.what()),
            std::string(kBuiltinStory)};
  }
}

Gpt2Files find_gpt2_files(const Download& fetch) {
  const auto find = [&](const PublishedFile& file) {
    try {
      return find_published(file, fetch);
    } catch (const Unavailable& reason) {
      throw Unavailable(concat(reason.what(), ". Save ", kGpt2Merges.url, " (SHA-256 ",
                               kGpt2Merges.sha256, ") and ", kGpt2Encoder.url, " (SHA-256 ",
                               kGpt2Encoder.sha256,
                               ") in a folder and set ROWGRAD_DATA to that folder, or choose "
                               "another tokenizer."));
    }
  };
  return {.merges = find(kGpt2Merges), .encoder = find(kGpt2Encoder)};
}

}  // namespace rowgrad
