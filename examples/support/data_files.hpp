#pragma once

// Finds the text that the programs train on, and GPT-2's vocabulary. Files that others publish are
// not part of rowgrad; each is searched for in this order:
//   1. $ROWGRAD_DATA, a folder of the user: any file is used
//   2. the cache, $XDG_CACHE_HOME/rowgrad or ~/.cache/rowgrad: used if its SHA-256 is correct
//   3. the network, unless ROWGRAD_OFFLINE=1: put into the cache if its SHA-256 is correct. After a
//      failure, no download is tried for ten minutes, so that programs start at once.

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <rowgrad/core/base/file.hpp>

namespace rowgrad {

struct DataFile {
  std::string title;     // "The Verdict"
  std::string source;    // for the user: "The Verdict, from $ROWGRAD_DATA (/data/…)"
  std::string contents;  // never empty
};

/// A file that others publish.
struct PublishedFile {
  std::string name;  // file name
  std::string title;
  std::string url;
  std::string sha256;       // in lower-case hexadecimal digits
  std::uint64_t bytes = 0;  // if the user has to download it, as it is large
};

/// Thrown if a file is in none of the three places. The message says why.
class Unavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the contents of a URL, or throws std::runtime_error.
using Download = std::function<std::string(const std::string& url)>;

/// The contents of an https URL, at most 16 MiB. Gives up after three seconds without a connection
/// and after ten seconds with hardly any data, so that a program without a network is not delayed.
/// Throws std::runtime_error; the message is the reason alone.
std::string download(const std::string& url);

/// The text in the file `chosen` if one is given; otherwise The Verdict or, if that is unavailable,
/// the story built into the program. Throws std::runtime_error if the chosen file cannot be read or
/// is empty.
DataFile find_corpus(const std::filesystem::path& chosen = {}, const Download& fetch = download);

struct Gpt2Files {
  DataFile merges;   // vocab.bpe
  DataFile encoder;  // encoder.json
};

/// Throws Unavailable with advice on how to get them.
Gpt2Files find_gpt2_files(const Download& fetch = download);

/// The Verdict and GPT-2's vocab.bpe and encoder.json.
const std::vector<PublishedFile>& published_files();

/// The file, from the first of the three places that has it; otherwise throws Unavailable. Throws
/// std::runtime_error if $ROWGRAD_DATA is not a folder or the file in it is unreadable or empty.
DataFile find_published(const PublishedFile& file, const Download& fetch = download);

/// The paths on this machine at which these files are searched for, whether or not they exist.
std::vector<std::filesystem::path> published_places();

/// In lower-case hexadecimal digits.
std::string sha256(const std::string& contents);

/// The same for a file, of which little is in memory at a time.
std::string sha256(const InputFile& file);

}  // namespace rowgrad
