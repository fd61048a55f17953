#include <algorithm>
#include <cstdint>
#include <exception>
#include <fcntl.h>
#include <new>
#include <span>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/token_file.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

// Returns the first bytes of a file. They determine the kind of the file. Only files that start
// like one of our formats are read whole, because other files may be larger than memory.
std::string first_bytes(const fs::path& path) {
  constexpr std::uint64_t kBytes = 4096;
  const InputFile file(path);
  std::string bytes(std::min(kBytes, file.size_bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

using Texts = std::vector<std::string>;

// Returns a check for files that start with one of these strings.
auto begins_with(Texts texts) {
  return [=](const fs::path& path) {
    const std::string first = first_bytes(path);
    return std::ranges::any_of(texts, [&](const auto& text) { return first.starts_with(text); });
  };
}

// Returns a check for JSON objects that have all these keys.
auto has_keys(Texts keys) {
  return [=](const fs::path& path) {
    if (!first_bytes(path).starts_with('{')) return false;
    const Json json(read_file(path), path.string());
    return std::ranges::all_of(keys, [&](const auto& key) { return json.find(key) != nullptr; });
  };
}

// Returns a check for safetensors files that have a nonempty string for each name.
auto has_texts(Texts names) {
  return [=](const fs::path& path) {
    const StateDict file = read_safetensors_metadata(path);
    return std::ranges::all_of(
        names, [&](const auto& name) { return file.contains(name) && !file.string(name).empty(); });
  };
}

bool is_run(const fs::path& path) {
  return read_safetensors_metadata(path).string("format").starts_with("rowgrad training");
}

bool has_adapters_alone(const fs::path& path) {
  std::size_t adapters = 0, others = 0;
  read_safetensors(path, [&](std::string_view name, const Shape&) {
    const bool is_adapter =
        name.ends_with("lora_a") || name.ends_with("lora_b") || name.ends_with("lora_scale");
    ++(is_adapter ? adapters : others);
    return false;
  });
  return adapters > 0 && others == 0;
}

bool is_report(const fs::path& path) {
  const std::string first = first_bytes(path);
  return first.starts_with("<!DOCTYPE html>") &&
         first.find("<title>The report of a run</title>") != std::string::npos;
}

// The pattern cannot occur within a string, where quotes are escaped.
bool is_report_data(const fs::path& path) {
  return first_bytes(path).starts_with('{') &&
         read_file(path).find(R"("format":"rowgrad report )") != std::string::npos;
}

// Returns true for word2vec's text format, and for NumPy files of write_word_vectors(). Other NumPy
// files have no comma at the end of the shape.
bool has_vectors(const fs::path& path) {
  const std::string first = first_bytes(path), line = first.substr(0, first.find('\n'));
  const bool is_text = line.size() + 1 < first.size() && std::ranges::count(line, ' ') == 1 &&
                       line.find_first_not_of("0123456789 ") == line.npos;
  return is_text || (first.starts_with("\x93NUMPY") && first.find(", ), }") != first.npos);
}

bool is_tokenizer(const fs::path& path) {
  return first_bytes(path).find(R"("format": "rowgrad tokenizer")") != std::string::npos;
}

bool has_token_header(const fs::path& path) { return TokenFile(path).header().has_value(); }

// Returns true if both paths refer to the same file, which need not exist yet.
bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code none;
  if (fs::exists(a, none) || fs::exists(b, none)) return fs::equivalent(a, b, none);
  return a.filename() == b.filename() && fs::equivalent(a.parent_path(), b.parent_path(), none);
}

// Returns true if the effective user may write the file.
bool can_write(const fs::path& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

bool is_in(const OutputKind& kind, const fs::path& path) {
  try {
    return kind.is_in(path);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // not in the format of this kind
    return false;
  }
}

}  // namespace

const OutputKind kRunFile{"a run", is_run};
const OutputKind kRunJson{"the JSON of a run", has_keys({"options", "history", "training_tokens"})};
const OutputKind kLossesCsv{"a table of losses",
                            begins_with({"epoch,steps,training_loss,validation_loss,"})};
const OutputKind kRowList{"a list of rows",
                          begins_with({"id\ttoken\tlookups\tsteps\t", "id,token,lookups,steps,"})};
const OutputKind kGpt2Weights{"an export of GPT-2 weights", has_texts({"n_head"})};
const OutputKind kWordVectors{"word vectors", has_vectors};
const OutputKind kVectorWords{
    "the words of word vectors", [](fs::path path) {
      return has_vectors(path.replace_extension("").replace_extension(".npy"));
    }};
const OutputKind kNearestJson{"the JSON of nearest words",
                              has_keys({"row", "token", "neighbours"})};
const OutputKind kRowsJson{"the JSON of rows", has_keys({"first_loss", "last_loss", "stride"})};
const OutputKind kRowsCsv{"a table of rows", begins_with({"table,row,kind,label,looked_up,"})};
const OutputKind kReportPage{"a report", is_report};
const OutputKind kReportData{"the data of a report", is_report_data};
const OutputKind kRunLog{"the log of a run",
                         [](const fs::path& path) { return is_run_log(first_bytes(path)); }};
const OutputKind kTokenizerFile{"a tokenizer", is_tokenizer};
const OutputKind kTokenIds{"a file of token ids with rowgrad's header", has_token_header};
const OutputKind kClassifierFile{"a classifier", has_texts({"labels", "tokenizer"})};
const OutputKind kAdapterFile{"a file of adapters", has_adapters_alone};
const OutputKind kMeasurements{"a file of measurements", has_keys({"program", "results"})};
const OutputKind kCheckedLater{"", [](const fs::path&) { return true; }};

void check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& read,
                   bool force) {
  std::error_code none;  // treats inaccessible paths as missing
  std::vector<fs::path> taken = published_places();
  taken.insert(taken.end(), {"/dev/stdin", "/dev/stdout", "/dev/stderr"});
  taken.insert(taken.end(), read.begin(), read.end());
  std::vector<fs::path> labels;  // folders of labelled texts
  for (const std::string& path : read)
    if (fs::is_directory(path, none))
      for (const auto& label : fs::directory_iterator(path)) labels.push_back(label);
  const auto is_among = [](const std::vector<fs::path>& paths, const fs::path& path) {
    return std::ranges::any_of(paths, [&](const fs::path& each) { return is_same(each, path); });
  };

  for (const auto& [option, path, kind] : outputs) {
    if (path.empty()) continue;
    const fs::path target = fs::absolute(resolve_symlinks(path)), folder = target.parent_path();
    check_runtime(fs::is_directory(folder, none), path, ": there is no folder ", folder.string());
    const long longest = ::pathconf(folder.c_str(), _PC_NAME_MAX);
    check_runtime(longest < 0 || std::cmp_less_equal(target.filename().string().size(), longest),
                  path, ": the file name has ", target.filename().string().size(),
                  " bytes, expected at most ", longest);
    const fs::file_status file = fs::status(path, none);
    check_runtime(!fs::is_directory(file), path, ": is a folder, expected a file");
    const bool regular = !fs::exists(file) || fs::is_regular_file(file);
    check_runtime(!regular || can_write(folder), path, ": the folder ", folder.string(),
                  " is not writable");
    check_runtime(!fs::exists(file) || can_write(path), path, ": is write-protected");
    if (!regular) continue;
    check_runtime(!is_among(labels, folder), path, ": is in a folder that the program reads");
    check_runtime(!is_among(taken, target), path,
                  ": is an output, but also an input or another output; expected different files");
    taken.push_back(target);
  }
  for (const auto& [option, path, kind] : outputs) {
    if (path.empty() || (fs::exists(path, none) && !fs::is_regular_file(path, none))) continue;
    const bool may_replace =
        force || !fs::exists(path, none) || fs::file_size(path) == 0 || is_in(kind, path);
    check_runtime(may_replace, option, ": ", path, " exists and is not ", kind.name,
                  "; --force replaces it");
    // Creates and removes a temporary file, which may fail although the folder seems writable.
    const LockedFile attempt(path, LockedFile::Open::kReplace);
  }
}

}  // namespace rowgrad
