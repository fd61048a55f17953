#pragma once

// Finds the text to train on, and GPT-2's vocabulary. Files that others publish are not part of
// rowgrad; examples/texts.sh fetches them. Each is searched for in this order:
//   1. $ROWGRAD_DATA, a folder of the user: any file is used
//   2. the cache, $XDG_CACHE_HOME/rowgrad or ~/.cache/rowgrad: used if it is as published

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rowgrad {

struct DataFile {
  std::string title;     // "The Verdict"
  std::string source;    // for the user: "The Verdict, from $ROWGRAD_DATA (/data/…)"
  std::string contents;  // never empty
};

/// The story built into the program: examples/data/the-slow-clock.txt.
extern const std::string_view kBuiltinStory;

/// Thrown if a file is in neither folder. The message says how to get it.
class Unavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the text in the file `chosen` if one is given; otherwise The Verdict or, if that is
/// unavailable, the story built into the program. Byte order marks are removed. Throws
/// std::runtime_error if the chosen file cannot be read or is empty, and if $ROWGRAD_DATA is not a
/// folder or a file in it is unreadable or empty.
DataFile find_corpus(const std::filesystem::path& chosen = {});

/// The bytes that some editors put at the beginning of UTF-8 files. They are not part of the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Returns the text without a byte order mark. If there was one, says so on standard error, with
/// the text's name.
std::string without_byte_order_mark(std::string text, const std::string& name);

struct Gpt2Files {
  DataFile merges;   // vocab.bpe
  DataFile encoder;  // encoder.json
};

/// Throws Unavailable, and std::runtime_error as find_corpus().
Gpt2Files find_gpt2_files();

/// Returns the paths at which published files are searched for, whether or not they exist.
std::vector<std::filesystem::path> published_places();

/// Returns the checksum of a text in hexadecimal digits (see class Checksum).
std::string checksum(std::string_view text);

}  // namespace rowgrad
