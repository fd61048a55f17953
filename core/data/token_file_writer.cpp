#include <algorithm>
#include <cstring>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/token_file_writer.hpp>

namespace rowgrad {
namespace {

template <class Stored>
void store(std::span<const std::int32_t> ids, std::vector<std::byte>& stored) {
  stored.resize(ids.size() * sizeof(Stored));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Stored>(ids[i]);
    std::memcpy(stored.data() + i * sizeof id, &id, sizeof id);
  }
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const Vocabulary& vocabulary,
                                 std::uint64_t job)
    : file_(path), job_(job) {
  file_.check_ours(TokenFileHeader::kUnfinished, sizeof header_, "unfinished file of token ids");
  header_.magic = TokenFileHeader::kUnfinished;
  header_.bytes_per_id = bytes_per_id(vocabulary.size());
  header_.vocabulary_size = vocabulary.size();
  header_.vocabulary_hash = vocabulary.hash();
  header_.checksum = Checksum().value();
  TokenFileHeader found;
  const bool has_header = file_.size_bytes() >= sizeof found;
  if (has_header) file_.read(0, std::as_writable_bytes(std::span(&found, 1)));
  if (has_header && can_go_on(found)) header_ = found;
  file_.truncate(end_bytes());
  write_header();
  file_.sync();  // so that whatever follows, it can be told from other files
}

// Of the header and the job, so that no file of another job goes on, nor one whose header changed.
std::uint64_t TokenFileWriter::seal(TokenFileHeader header) const {
  header.job = job_;
  Checksum sum;
  sum.add_words(std::as_bytes(std::span(&header, 1)));
  return sum.value();
}

bool TokenFileWriter::can_go_on(const TokenFileHeader& found) const {
  const std::uint64_t ids = (file_.size_bytes() - sizeof found) / header_.bytes_per_id;
  return job_ != 0 && found.job == seal(found) && found.magic == header_.magic &&
         found.version == header_.version && found.bytes_per_id == header_.bytes_per_id &&
         found.vocabulary_hash == header_.vocabulary_hash && found.count <= ids;
}

std::uint64_t TokenFileWriter::end_bytes() const {
  return sizeof header_ + header_.count * header_.bytes_per_id;
}

void TokenFileWriter::write_header() {
  const bool finished = header_.magic == TokenFileHeader::kMagic;
  header_.job = finished ? 0 : seal(header_);
  file_.write(0, std::as_bytes(std::span(&header_, 1)));
}

void TokenFileWriter::append(std::span<const std::int32_t> ids) {
  Checksum sum(header_.checksum);
  std::uint32_t largest = 0;
  for (const std::int32_t id : ids) {
    largest = std::max(largest, static_cast<std::uint32_t>(id));
    sum.add(static_cast<std::uint64_t>(id));
  }
  check_argument(ids.empty() || largest < header_.vocabulary_size, "TokenFileWriter: id ",
                 static_cast<std::int32_t>(largest), " is outside the vocabulary of ",
                 header_.vocabulary_size, " tokens");
  if (header_.bytes_per_id == 2) {
    store<std::uint16_t>(ids, stored_);
  } else {
    store<std::uint32_t>(ids, stored_);
  }
  file_.write(end_bytes(), stored_);
  header_.count += ids.size();
  header_.checksum = sum.value();
}

// The ids have to be on the disk before a header says that they are there.
void TokenFileWriter::save(std::uint64_t position) {
  file_.sync();
  header_.position = position;
  write_header();
}

void TokenFileWriter::finish() {
  header_.magic = TokenFileHeader::kMagic;
  header_.position = 0;
  file_.sync();
  write_header();
  file_.commit();
}

}  // namespace rowgrad
