#pragma once

// Files of token ids, little-endian, in three formats:
//
//   rowgrad   TokenFileHeader (64 bytes), then ids of 2 or 4 bytes, then the checksum (class
//             Checksum, seeded with the block's index) of each block of 16 KiB of ids, then
//             "rgtokend", so that a file with a damaged header is not read as a raw file. Version
//             1, written by rowgrad 0.2.0, ends with the ids.
//   llm.c     256 int32: magic, version, number of ids, zeros; then the ids. Magic 20240520 and
//             version 1: ids of 2 bytes; 20240801 and 7: ids of 4 bytes.
//             Source: karpathy/llm.c, dev/data/data_common.py.
//   raw       only ids, such as nanoGPT's train.bin with ids of 2 bytes.
//             Source: karpathy/nanoGPT, data/openwebtext/prepare.py.
//
// Invalid arguments throw std::invalid_argument; invalid files throw std::runtime_error.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/tokenizers/vocabulary.hpp>

namespace rowgrad {

/// The header of rowgrad's format, little-endian.
struct TokenFileHeader {
  /// The first bytes of a file.
  static constexpr std::array<char, 8> kMagic = {'r', 'g', 't', 'o', 'k', 'e', 'n', 's'};
  static constexpr std::uint32_t kVersion = 2;  // current version of the format; 1 can also be read

  std::array<char, 8> magic = kMagic;  // identifies the format
  std::uint32_t version = kVersion;    // kVersion or 1
  std::uint32_t bytes_per_id = 0;      // 2 or 4
  std::uint64_t count = 0;             // number of ids
  std::uint64_t vocabulary_size = 0;   // number of ids of the tokenizer; every id is less
  std::uint64_t vocabulary_hash = 0;   // the tokenizer's Vocabulary::hash()
  std::uint64_t checksum = 0;          // covers block checksums; version 1: ids
  std::uint64_t header_checksum = 0;   // covers the fields above; version 1: 0
  std::uint64_t unused = 0;            // must be 0
};
static_assert(sizeof(TokenFileHeader) == 64);

/// Returns the bytes per id for a vocabulary size.
inline std::uint32_t bytes_per_id(std::size_t vocabulary_size) {
  return vocabulary_size <= 65536 ? 2 : 4;
}

struct TokenFileOptions {
  /// Bytes per id of a raw file, 2 or 4. If 0, raw files are rejected.
  std::size_t raw_bytes = 0;
  /// The expected vocabulary. Opening a file throws if its header has another vocabulary, and
  /// reading throws for ids outside the expected one. If null, the header's vocabulary size or the
  /// id width is the limit.
  const Vocabulary* vocabulary = nullptr;
};

/// A file of token ids that is read on demand. It is not memory-mapped, because reading would kill
/// the process if another program truncated the file, and mapped pages count as the process's
/// memory. Movable; several threads may read at once.
class TokenFile {
 public:
  /// Reads only the header and "rgtokend". Throws if the format is unknown, the length
  /// contradicts the header, or the vocabulary differs.
  explicit TokenFile(const std::filesystem::path& path, const TokenFileOptions& options = {});

  const std::filesystem::path& path() const { return file_.path(); }  // path of the file

  /// Returns the number of ids.
  std::uint64_t size() const { return size_; }

  /// Returns the header, or nothing in other formats.
  const std::optional<TokenFileHeader>& header() const { return header_; }

  /// Fills `ids` with the ids from index `begin` on. Throws for ids outside the vocabulary. In
  /// version 2 of rowgrad's format, verifies each block when it is first read, and throws if the
  /// block is damaged.
  void read(std::uint64_t begin, std::span<std::int32_t> ids) const;

  /// Throws if the length or modification time has changed since the file was opened.
  void check_unchanged() const { file_.check_unchanged(); }

  /// Reads the whole file. Throws for an id outside the vocabulary and, in rowgrad's format, if the
  /// checksums differ.
  void verify() const;

  /// Returns a hash for telling files apart. In rowgrad's format, it covers the header's checksum,
  /// vocabulary and count. In other formats, it covers all ids or, above 1 GiB, their number and a
  /// sample.
  std::uint64_t fingerprint() const;

 private:
  std::uint64_t legacy_checksum() const;
  void read_own_header(std::uint64_t bytes, const Vocabulary* vocabulary);
  bool read_llmc_header(std::uint64_t bytes);
  void set_size(std::uint64_t ids_in_header, std::uint64_t bytes);
  bool has_blocks() const { return verified_ != nullptr; }
  std::uint64_t block_count() const;
  void verify_block(std::uint64_t block, std::span<const std::byte> bytes) const;

  InputFile file_;
  std::optional<TokenFileHeader> header_;
  std::uint64_t begin_bytes_ = 0;
  std::size_t bytes_per_id_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t vocabulary_size_ = 0;
  std::unique_ptr<std::atomic<std::uint64_t>[]>
      verified_;  // one bit per block; null without block checksums
};

/// A writer of files in rowgrad's format. An existing file stays in place until the new one is
/// complete.
class TokenFileWriter {
 public:
  /// Creates the file, or throws std::system_error: see LockedFile::Open::kReplace.
  TokenFileWriter(const std::filesystem::path& path, const Vocabulary& vocabulary);

  /// Returns the number of ids so far.
  std::uint64_t count() const { return header_.count; }

  /// Appends ids. Throws, and appends nothing, if an id is outside the vocabulary.
  void append(std::span<const std::int32_t> ids);

  /// Completes the file and moves it into place. Call no other function afterwards.
  void finish();

 private:
  void end_block();

  LockedFile file_;
  TokenFileHeader header_;
  Checksum block_;                   // covers the ids after the last full block
  std::uint64_t block_bytes_ = 0;    // bytes that block_ covers
  std::vector<std::uint64_t> sums_;  // checksums of full blocks
  std::vector<std::byte> stored_;
};

}  // namespace rowgrad
