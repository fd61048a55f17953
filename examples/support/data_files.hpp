#pragma once

// Where the programs get the text they train on, and GPT-2's vocabulary. Files of others are not
// part of rowgrad; each is looked for in this order:
//   1. $ROWGRAD_DATA, a folder of the user's: taken as it is
//   2. the cache, $XDG_CACHE_HOME/rowgrad or ~/.cache/rowgrad: taken if its SHA-256 is right
//   3. the network, unless ROWGRAD_OFFLINE=1: kept in the cache if its SHA-256 is right. After a
//      failure ten minutes pass until the next attempt, so that programs start at once.

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <rowgrad/examples/support/download.hpp>

namespace rowgrad {

struct DataFile {
  std::string title;     // "The Verdict"
  std::string source;    // what to tell the user: "The Verdict, from $ROWGRAD_DATA (/data/…)"
  std::string contents;  // never empty
};

/// A file as somebody else publishes it.
struct PublishedFile {
  std::string name;  // of the file, in folders
  std::string title;
  std::string url;
  std::string sha256;  // in lower-case hexadecimal digits
};

/// The file is in none of the three places. The message says why.
class Unavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Gets the contents of an address, or throws std::runtime_error.
using Download = std::function<std::string(const std::string& url)>;

/// The text at `chosen` if that is not empty; else The Verdict; else, where that is unavailable,
/// the story built into the program. Throws std::runtime_error for a chosen text that cannot be
/// read or is empty.
DataFile find_corpus(const std::filesystem::path& chosen = {}, const Download& fetch = download);

struct Gpt2Files {
  DataFile merges;   // vocab.bpe
  DataFile encoder;  // encoder.json
};

/// Throws Unavailable with advice on how to get them.
Gpt2Files find_gpt2_files(const Download& fetch = download);

/// One file, from the first of the three places that has it. Throws Unavailable; and
/// std::runtime_error where $ROWGRAD_DATA is no folder or the file in it is of no use.
DataFile find_published(const PublishedFile& file, const Download& fetch = download);

/// Where these files are looked for on this machine, whether they are there or not.
std::vector<std::filesystem::path> published_places();

/// In lower-case hexadecimal digits.
std::string sha256(const std::string& contents);

}  // namespace rowgrad
