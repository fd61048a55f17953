#pragma once

// Files of token ids, little-endian, of three kinds:
//
//   rowgrad's   TokenFileHeader (64 bytes), then ids of 2 or 4 bytes, then the checksum (class
//               Checksum, its seed the block's number) of each block of 16 KiB of ids, then
//               "rgtokend", which shows that a file with a damaged header is not a raw one.
//               Version 1, which version 0.2.0 wrote, ends with the ids.
//   llm.c's     256 int32: magic, version, number of ids, zeros; then the ids. Magic 20240520 and
//               version 1: ids of 2 bytes; 20240801 and 7: ids of 4 bytes.
//               Source: karpathy/llm.c, dev/data/data_common.py.
//   raw         ids alone, as nanoGPT's train.bin with ids of 2 bytes.
//               Source: karpathy/nanoGPT, data/openwebtext/prepare.py.
//
// Wrong arguments throw std::invalid_argument; what is wrong with a file, std::runtime_error.

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

/// The first 64 bytes of a file, little-endian.
struct TokenFileHeader {
  /// What such a file begins with.
  static constexpr std::array<char, 8> kMagic = {'r', 'g', 't', 'o', 'k', 'e', 'n', 's'};
  static constexpr std::uint32_t kVersion = 2;  // the version of this format; 1 is read, too

  std::array<char, 8> magic = kMagic;  // others are refused
  std::uint32_t version = kVersion;    // others are refused
  std::uint32_t bytes_per_id = 0;      // 2 or 4
  std::uint64_t count = 0;             // the number of ids
  std::uint64_t vocabulary_size = 0;   // the tokenizer's number of ids; all are below it
  std::uint64_t vocabulary_hash = 0;   // the tokenizer's Vocabulary::hash()
  std::uint64_t checksum = 0;          // of the blocks' checksums; version 1: of the ids
  std::uint64_t header_checksum = 0;   // of what is above; version 1: 0
  std::uint64_t unused = 0;            // zero
};
static_assert(sizeof(TokenFileHeader) == 64);

/// How a file writes the ids of a vocabulary.
inline std::uint32_t bytes_per_id(std::size_t vocabulary_size) {
  return vocabulary_size <= 65536 ? 2 : 4;
}

struct TokenFileOptions {
  /// The bytes of an id in a file without a header, 2 or 4; with 0, such a file is refused.
  std::size_t raw_bytes = 0;
  /// The vocabulary that the ids must be of. A header with another one is refused, and ids outside
  /// it when they are read. Without it, ids may be as large as the file says.
  const Vocabulary* vocabulary = nullptr;
};

/// A file of token ids that stays on the disk. It is read, not mapped: if another program shortens
/// a mapped file, reading it ends the process, and all that was ever touched counts as memory of
/// the process. Movable; may be read by several threads at once.
class TokenFile {
 public:
  /// Reads the header only. Refuses a file of none of the three kinds, one that has not as many ids
  /// as its header says, and one of another vocabulary.
  explicit TokenFile(const std::filesystem::path& path, const TokenFileOptions& options = {});

  const std::filesystem::path& path() const { return file_.path(); }  // the path of the file

  /// The number of ids.
  std::uint64_t size() const { return size_; }

  /// The header, of a file of rowgrad's.
  const std::optional<TokenFileHeader>& header() const { return header_; }

  /// Fills `ids` from the id at `begin` on. Throws for ids outside the vocabulary. In rowgrad's
  /// files of version 2, throws for a block of ids that is damaged, when it is first read.
  void read(std::uint64_t begin, std::span<std::int32_t> ids) const;

  /// Throws if the file has another length or time of change than when it was opened.
  void check_unchanged() const { file_.check_unchanged(); }

  /// Reads all of it. Throws for an id outside the vocabulary and, where there is a header of
  /// rowgrad's, for ids that are not those that were written.
  void verify() const;

  /// Tells files with other ids apart: the checksum in the header or, without one, of all ids; in a
  /// file of more than 1 GiB without one, of their number and of a sample of them.
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
      verified_;  // a bit of each block; null without them
};

/// Writes a file of token ids with rowgrad's header, of which nothing but a small buffer is in
/// memory. A file that is there stays as it is until the new one is whole.
class TokenFileWriter {
 public:
  /// Throws std::system_error if there can be no such file: see LockedFile::Open::kReplace.
  TokenFileWriter(const std::filesystem::path& path, const Vocabulary& vocabulary);

  /// The number of ids so far.
  std::uint64_t count() const { return header_.count; }

  /// Appends nothing if an id is outside the vocabulary.
  void append(std::span<const std::int32_t> ids);

  /// Completes the file and puts it in its place. Nothing may be called after that.
  void finish();

 private:
  void end_block();

  LockedFile file_;
  TokenFileHeader header_;
  Checksum block_;                   // checksum of the ids after the last whole block
  std::uint64_t block_bytes_ = 0;    // bytes of these ids
  std::vector<std::uint64_t> sums_;  // checksums of whole blocks
  std::vector<std::byte> stored_;
};

}  // namespace rowgrad
