#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/token_file.hpp>

namespace rowgrad {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// The maximum bytes of a file that fingerprint() reads whole, in about a second.
constexpr std::uint64_t kReadWhole = std::uint64_t{1} << 30;

constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 16;  // ids per read of a whole file
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 14;
constexpr std::uint64_t kSumBytes = sizeof(std::uint64_t);  // bytes of a checksum
constexpr std::uint64_t kBitsPerWord = 64;
constexpr std::array<char, 8> kEnd = {'r', 'g', 't', 'o', 'k', 'e', 'n', 'd'};

struct LlmcKind {
  std::uint32_t magic;
  std::uint32_t version;
  std::size_t bytes_per_id;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr std::uint64_t kLlmcHeaderBytes = 256 * 4;

std::uint64_t checksum_of(const TokenFileHeader& header) {
  Checksum sum;
  sum.add_bytes(
      std::as_bytes(std::span(&header, 1)).first(offsetof(TokenFileHeader, header_checksum)));
  return sum.value();
}

// Calls body(ids) with consecutive parts of the ids of a file.
void for_all_ids(const TokenFile& file, const auto& body) {
  std::vector<std::int32_t> ids(std::min(file.size(), kAtOnce));
  for (std::uint64_t begin = 0; begin < file.size(); begin += ids.size()) {
    ids.resize(std::min(file.size() - begin, kAtOnce));
    file.read(begin, ids);
    body(ids);
  }
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, const TokenFileOptions& options)
    : file_(path) {
  check_argument(options.raw_bytes == 0 || options.raw_bytes == 2 || options.raw_bytes == 4,
                 "TokenFile: raw_bytes is ", options.raw_bytes, ", expected 0, 2 or 4");
  const std::uint64_t bytes = file_.size_bytes();
  std::array<char, 8> magic{};
  file_.read(0, std::as_writable_bytes(std::span(magic).first(std::min<std::size_t>(bytes, 8))));
  if (magic == TokenFileHeader::kMagic) {
    read_own_header(bytes, options.vocabulary);
  } else if (!read_llmc_header(bytes)) {
    std::array<char, 8> end{};
    if (bytes >= sizeof(TokenFileHeader) + kEnd.size())
      file_.read(bytes - kEnd.size(), std::as_writable_bytes(std::span(end)));
    check_runtime(end != kEnd, path.string(), ": the header is damaged");
    check_runtime(
        options.raw_bytes != 0, path.string(),
        ": does not start with rowgrad's or llm.c's header; to read raw ids, set raw_bytes");
    bytes_per_id_ = options.raw_bytes;
    check_runtime(bytes % bytes_per_id_ == 0, path.string(), ": has ", bytes,
                  " bytes, expected a multiple of ", bytes_per_id_);
    set_size(bytes / bytes_per_id_, bytes);
  }
  const std::uint64_t most = bytes_per_id_ == 2 ? std::uint64_t{1} << 16 : std::uint64_t{1} << 31;
  vocabulary_size_ = std::min(most, options.vocabulary != nullptr ? options.vocabulary->size()
                                    : header_                     ? header_->vocabulary_size
                                                                  : most);
}

void TokenFile::read_own_header(std::uint64_t bytes, const Vocabulary* vocabulary) {
  const std::string name = path().string();
  check_runtime(bytes >= sizeof(TokenFileHeader), name, ": is truncated: has ", bytes,
                " bytes, expected a header of ", sizeof(TokenFileHeader));
  TokenFileHeader header;
  file_.read(0, std::as_writable_bytes(std::span(&header, 1)));
  const bool is_legacy = header.version == 1;
  check_runtime(is_legacy || header.version == TokenFileHeader::kVersion, name, ": has version ",
                header.version, ", expected 1 or ", TokenFileHeader::kVersion);
  check_runtime(is_legacy || (header.header_checksum == checksum_of(header) && header.unused == 0),
                name, ": the header is damaged");
  check_runtime(header.bytes_per_id == 2 || header.bytes_per_id == 4, name, ": has ids of ",
                header.bytes_per_id, " bytes, expected 2 or 4");
  if (vocabulary != nullptr)
    check_runtime(
        header.vocabulary_hash == (is_legacy ? vocabulary->legacy_hash() : vocabulary->hash()),
        name, ": its vocabulary of ", header.vocabulary_size,
        " tokens differs from the tokenizer's vocabulary of ", vocabulary->size(), " tokens");
  begin_bytes_ = sizeof header;
  bytes_per_id_ = header.bytes_per_id;
  header_ = header;
  if (is_legacy) return set_size(header.count, bytes);
  // The header has been verified, so the count is trustworthy.
  size_ = header.count;
  const std::uint64_t expected =
      begin_bytes_ + size_ * bytes_per_id_ + block_count() * kSumBytes + kEnd.size();
  check_runtime(size_ <= bytes && bytes == expected, name, ": has ", bytes, " bytes, expected ",
                expected, " for ", size_, " ids");
  std::array<char, 8> end{};
  file_.read(bytes - kEnd.size(), std::as_writable_bytes(std::span(end)));
  check_runtime(end == kEnd, name, ": the end of the file is damaged");
  verified_ = std::make_unique<std::atomic<std::uint64_t>[]>(block_count() / kBitsPerWord + 1);
}

std::uint64_t TokenFile::block_count() const {
  return (size_ * bytes_per_id_ + kBlockBytes - 1) / kBlockBytes;
}

bool TokenFile::read_llmc_header(std::uint64_t bytes) {
  std::array<std::uint32_t, 3> header{};  // magic, version, number of ids
  if (bytes < sizeof header) return false;
  file_.read(0, std::as_writable_bytes(std::span(header)));
  const auto* kind = std::find_if(std::begin(kLlmcKinds), std::end(kLlmcKinds),
                                  [&](const LlmcKind& known) { return known.magic == header[0]; });
  if (kind == std::end(kLlmcKinds)) return false;
  check_runtime(header[1] == kind->version, path().string(), ": has llm.c's magic ", kind->magic,
                " and version ", header[1], ", expected version ", kind->version);
  check_runtime(bytes >= kLlmcHeaderBytes, path().string(), ": is truncated: has ", bytes,
                " bytes, expected a header of ", kLlmcHeaderBytes);
  begin_bytes_ = kLlmcHeaderBytes;
  bytes_per_id_ = kind->bytes_per_id;
  set_size(header[2], bytes);
  return true;
}

void TokenFile::set_size(std::uint64_t ids_in_header, std::uint64_t bytes) {
  const std::uint64_t left = bytes - begin_bytes_;
  check_runtime(left % bytes_per_id_ == 0 && left / bytes_per_id_ == ids_in_header, path().string(),
                ": its header says ", ids_in_header, " ids of ", bytes_per_id_, " bytes, but ",
                left, " bytes follow");
  size_ = ids_in_header;
}

void TokenFile::read(std::uint64_t begin, std::span<std::int32_t> ids) const {
  check_argument(begin <= size_ && ids.size() <= size_ - begin, "TokenFile: ids [", begin, ", ",
                 begin + ids.size(), ") are out of range: ", path().string(), " has ", size_,
                 " ids");
  // Each id is read as four bytes. For 2-byte ids, the mask drops the bytes of the next id.
  const std::uint32_t own_bytes = bytes_per_id_ == 2 ? 0xFFFF : 0xFFFFFFFF;
  std::array<std::byte, kBlockBytes + sizeof(std::uint32_t)> stored;
  for (std::size_t done = 0; done < ids.size();) {
    const std::uint64_t offset = (begin + done) * bytes_per_id_, block = offset / kBlockBytes;
    const std::uint64_t block_begin = block * kBlockBytes;
    const std::uint64_t block_end = std::min(block_begin + kBlockBytes, size_ * bytes_per_id_);
    const std::span some = ids.subspan(
        done, std::min<std::uint64_t>(ids.size() - done, (block_end - offset) / bytes_per_id_));
    const std::byte* bytes = stored.data();
    if (has_blocks() && (verified_[block / kBitsPerWord] >> block % kBitsPerWord & 1) == 0) {
      // Reads the whole block to verify it.
      const std::span whole = std::span(stored).first(block_end - block_begin);
      file_.read(begin_bytes_ + block_begin, whole);
      verify_block(block, whole);
      bytes += offset - block_begin;
    } else {
      file_.read(begin_bytes_ + offset, std::span(stored).first(some.size() * bytes_per_id_));
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::uint32_t id = 0;
      std::memcpy(&id, bytes + i * bytes_per_id_, sizeof id);
      id &= own_bytes;
      if (id >= vocabulary_size_) [[unlikely]]
        check_runtime(false, path().string(), ": id ", id, " at index ", begin + done + i,
                      " is out of range: the vocabulary has ", vocabulary_size_, " tokens");
      some[i] = static_cast<std::int32_t>(id);
    }
    done += some.size();
  }
}

// Several threads may verify a block at once.
void TokenFile::verify_block(std::uint64_t block, std::span<const std::byte> bytes) const {
  Checksum sum(block);
  sum.add_bytes(bytes);
  std::uint64_t written = 0;
  file_.read(begin_bytes_ + size_ * bytes_per_id_ + block * kSumBytes,
             std::as_writable_bytes(std::span(&written, 1)));
  check_runtime(sum.value() == written, path().string(), ": the block of ids from index ",
                block * kBlockBytes / bytes_per_id_, " on is damaged");
  verified_[block / kBitsPerWord] |= std::uint64_t{1} << block % kBitsPerWord;
}

std::uint64_t TokenFile::legacy_checksum() const {
  LegacyChecksum sum;
  for_all_ids(*this, [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) sum.add(static_cast<std::uint64_t>(id));
  });
  return sum.value();
}

void TokenFile::verify() const {
  if (!has_blocks()) {
    const std::uint64_t present = legacy_checksum();
    return check_runtime(!header_ || present == header_->checksum, path().string(),
                         ": the ids are damaged: their checksum differs from the header");
  }
  for (std::uint64_t word = 0; word <= block_count() / kBitsPerWord; ++word) verified_[word] = 0;
  for_all_ids(*this, [](const auto&) {});
  Checksum sum;
  for (std::uint64_t block = 0; block < block_count(); ++block) {
    std::uint64_t written = 0;
    file_.read(begin_bytes_ + size_ * bytes_per_id_ + block * kSumBytes,
               std::as_writable_bytes(std::span(&written, 1)));
    sum.add(written);
  }
  check_runtime(sum.value() == header_->checksum, path().string(),
                ": the ids are damaged: their checksum differs from the header");
}

std::uint64_t TokenFile::fingerprint() const {
  Checksum sum;
  sum.add(size_);
  if (header_) {
    sum.add(header_->vocabulary_hash);
    sum.add(header_->checksum);
    return sum.value();
  }
  if (file_.size_bytes() <= kReadWhole) {
    for_all_ids(*this, [&](const std::vector<std::int32_t>& ids) {
      sum.add_bytes(std::as_bytes(std::span(ids)));
    });
    return sum.value();
  }
  constexpr std::uint64_t kSamples = 256;
  std::vector<std::int32_t> ids(std::min<std::uint64_t>(size_, 64));
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    read((size_ - ids.size()) / (kSamples - 1) * i, ids);
    sum.add_bytes(std::as_bytes(std::span(ids)));
  }
  return sum.value();
}

// --- Writing -------------------------------------------------------------------------------------

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const Vocabulary& vocabulary)
    : file_(path, LockedFile::Open::kReplace) {
  header_.bytes_per_id = bytes_per_id(vocabulary.size());
  header_.vocabulary_size = vocabulary.size();
  header_.vocabulary_hash = vocabulary.hash();
}

void TokenFileWriter::append(std::span<const std::int32_t> ids) {
  const std::size_t bytes = header_.bytes_per_id;
  stored_.resize(ids.size() * bytes + sizeof(std::int32_t));
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    largest = std::max(largest, static_cast<std::uint32_t>(ids[i]));
    // Writes four bytes. The next id overwrites the bytes beyond bytes_per_id.
    std::memcpy(stored_.data() + i * bytes, &ids[i], sizeof ids[i]);
  }
  check_argument(ids.empty() || largest < header_.vocabulary_size, "TokenFileWriter: id ",
                 static_cast<std::int32_t>(largest), " is out of range: the vocabulary has ",
                 header_.vocabulary_size, " tokens");
  std::span<const std::byte> rest = std::span(stored_).first(ids.size() * bytes);
  file_.write(sizeof header_ + header_.count * bytes, rest);
  header_.count += ids.size();
  while (!rest.empty()) {
    const auto some = rest.first(std::min<std::uint64_t>(rest.size(), kBlockBytes - block_bytes_));
    block_.add_bytes(some);
    block_bytes_ += some.size();
    if (block_bytes_ == kBlockBytes) end_block();
    rest = rest.subspan(some.size());
  }
}

void TokenFileWriter::end_block() {
  sums_.push_back(block_.value());
  block_ = Checksum(sums_.size());
  block_bytes_ = 0;
}

void TokenFileWriter::finish() {
  if (block_bytes_ > 0) end_block();
  Checksum sum;
  for (const std::uint64_t of_block : sums_) sum.add(of_block);
  header_.checksum = sum.value();
  header_.header_checksum = checksum_of(header_);
  const std::uint64_t end = sizeof header_ + header_.count * header_.bytes_per_id;
  file_.write(end, std::as_bytes(std::span(sums_)));
  file_.write(end + sums_.size() * kSumBytes, std::as_bytes(std::span(kEnd)));
  file_.write(0, std::as_bytes(std::span(&header_, 1)));
  file_.publish();
}

}  // namespace rowgrad
