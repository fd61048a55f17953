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
  /// Special tokens to recognise in the texts, as in EncodeOptions.
  std::vector<std::string> allowed_special = {};
  /// A special token to put between two files; none if it is empty.
  std::string separator = "";
  /// Bytes of text that a thread encodes at a time. Each thread takes a few times that much memory,
  /// and more only for a longer stretch without a blank, a tab or a line end.
  std::size_t block_bytes = std::size_t{1} << 22;
  /// The number of threads; 0 for thread_count().
  std::size_t threads = 0;
  /// Called after each block with the bytes of text that are done.
  std::function<void(std::uint64_t)> after_block = {};
};

/// Appends the ids of text files of any size, one after another, as if each were encoded as a
/// whole. A byte order mark is skipped with a note on standard error. Throws std::invalid_argument
/// for a special token that the tokenizer lacks, and std::runtime_error for a file that is empty,
/// cannot be read, was changed meanwhile or has text without an id.
void encode_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                  TokenFileWriter& writer, const EncodeFilesOptions& options = {});

}  // namespace rowgrad
