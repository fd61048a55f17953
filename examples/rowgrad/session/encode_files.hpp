#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <rowgrad/core/data/token_file.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

struct EncodeFilesOptions {
  /// Special tokens to recognize in the text, as in EncodeOptions.
  std::vector<std::string> allowed_special = {};
  /// Special token to insert between files; "" for none.
  std::string separator = "";
  /// Bytes of text that a thread encodes at a time. Each thread needs a few times this memory, or
  /// more if the text has a longer stretch without a space, tab or line end.
  std::size_t block_bytes = std::size_t{1} << 22;
  /// Number of threads; 0 for thread_count().
  std::size_t threads = 0;
  /// Called after each block with the number of bytes encoded so far.
  std::function<void(std::uint64_t)> after_block = {};
};

/// Encodes text files of any size and appends their ids to `writer`, as if each file were encoded
/// as a whole. Skips byte order marks with a note on standard error. Throws std::invalid_argument
/// for a separator that the tokenizer lacks, and std::runtime_error for a file that is empty,
/// cannot be read, changes meanwhile or cannot be encoded.
void encode_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                  TokenFileWriter& writer, const EncodeFilesOptions& options = {});

}  // namespace rowgrad
