#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <rowgrad/core/base/checksum.hpp>
#include <rowgrad/core/data/token_file.hpp>

namespace rowgrad {

/// Writes a file of token ids with rowgrad's header, of which nothing but a small buffer is in
/// memory. Until finish(), it is PATH.partial; a writer that is killed can be continued by the next
/// one for the same job, from its last save().
class TokenFileWriter {
 public:
  /// `job` stands for all that the ids depend on besides the vocabulary. What an unfinished file
  /// has of another job or of another vocabulary, or with a damaged header, is discarded; job 0
  /// never goes on. Throws as PartialFile does, and std::runtime_error if PATH.partial is no such
  /// file.
  TokenFileWriter(const std::filesystem::path& path, const Vocabulary& vocabulary,
                  std::uint64_t job = 0);

  /// What the last save() was given; 0 at the beginning of a file.
  std::uint64_t position() const { return header_.position; }

  /// The number of ids so far.
  std::uint64_t count() const { return header_.count; }

  /// Throws std::invalid_argument, and appends nothing, for an id outside the vocabulary.
  void append(std::span<const std::int32_t> ids);

  /// Lets the next writer go on from here, if this process ends. (If the machine stops, it may be
  /// from an earlier call.) `position` says how far the job is.
  void save(std::uint64_t position);

  /// Completes the file and puts it in its place. Nothing may be called after that.
  void finish();

 private:
  bool can_go_on(const TokenFileHeader& found) const;
  std::uint64_t seal(TokenFileHeader header) const;
  std::uint64_t end_bytes() const;
  void write_header();

  PartialFile file_;
  std::uint64_t job_;
  TokenFileHeader header_;
  std::vector<std::byte> stored_;
};

}  // namespace rowgrad
