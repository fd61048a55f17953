#pragma once

// Finds the corpus to train on, and GPT-2's vocabulary. Files published by others are not part of
// rowgrad; examples/texts.sh downloads them. rowgrad searches in this order:
//   1. $ROWGRAD_DATA, a folder of the user: files are not checked
//   2. the cache, $XDG_CACHE_HOME/rowgrad or ~/.cache/rowgrad: files need the right checksum

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rowgrad {

struct DataFile {
  std::string title;     // "The Verdict"
  std::string source;    // for messages: "The Verdict, from $ROWGRAD_DATA (/data/…)"
  std::string contents;  // never empty
};

/// The story built into the program: examples/data/the-slow-clock.txt.
extern const std::string_view kBuiltinStory;

/// An exception for a file in neither place. The message says how to get the file.
class Unavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the text in the file `chosen`. If it is "", returns The Verdict or, if unavailable, the
/// story built into the program. Removes byte order marks. Throws std::runtime_error if the file
/// cannot be read or is empty, and if $ROWGRAD_DATA is not a folder.
DataFile find_corpus(const std::filesystem::path& chosen = {});

/// The bytes that some editors put before UTF-8 text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Removes a byte order mark from the text. If there is one, prints a note with the text's `name`
/// on standard error.
std::string without_byte_order_mark(std::string text, const std::string& name);

struct Gpt2Files {
  DataFile merges;   // vocab.bpe
  DataFile encoder;  // encoder.json
};

/// Finds GPT-2's files. Throws Unavailable, and std::runtime_error like find_corpus().
Gpt2Files find_gpt2_files();

/// Returns all paths where published files are searched for, whether or not they exist.
std::vector<std::filesystem::path> published_places();

/// Returns the checksum of a text in hexadecimal (see class Checksum).
std::string checksum(std::string_view text);

}  // namespace rowgrad
