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

/// Options of encode_files().
struct EncodeFilesOptions {
  /// The special tokens to recognise in the texts, as in EncodeOptions.
  std::vector<std::string> allowed_special = {};
  /// A special token to put between two files; none if it is empty.
  std::string separator = "";
  /// The text that a thread encodes at a time. Memory is a few times that for each thread. Only a
  /// longer stretch that cannot be cut anywhere (Tokenizer::last_cut) takes more.
  std::size_t block_bytes = std::size_t{1} << 22;
  /// The number of threads; 0 for one for each processor.
  std::size_t threads = 0;
  /// The text between two calls of TokenFileWriter::save.
  std::uint64_t save_bytes = std::uint64_t{1} << 28;
  /// Called after each block, by one thread at a time, with the bytes of text that are done.
  std::function<void(std::uint64_t)> after_block = {};
};

/// A number that differs if these files (their names, lengths or times of change) or the options on
/// which ids depend differ: the job of the TokenFileWriter. Throws std::runtime_error as InputFile,
/// and for a file that is empty.
std::uint64_t encode_files_job(const Tokenizer& tokenizer,
                               const std::vector<std::filesystem::path>& files,
                               const EncodeFilesOptions& options);

/// Appends the ids of text files of any size, one after another, exactly as if each were encoded as
/// a whole. Goes on from the writer's position, which is in bytes of all files together; the writer
/// is left to be finished. Throws std::invalid_argument for a special token that the tokenizer
/// lacks, and std::runtime_error for a file that is empty, cannot be read, was changed meanwhile
/// or has text without an id.
void encode_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                  TokenFileWriter& writer, const EncodeFilesOptions& options = {});

}  // namespace rowgrad
