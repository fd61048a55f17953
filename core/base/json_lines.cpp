#include <span>
#include <sys/stat.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/json_lines.hpp>

namespace rowgrad {
namespace {

// Returns the end of the line that begins with `record`. `record` is an object without its closing
// brace.
std::string end_of_line(std::string_view record) {
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(record)));
  return concat(",\"sum\":\"", checksum_digits(sum.value()), "\"}");
}

}  // namespace

bool is_whole_line(std::string_view line) {
  static const std::size_t kEnd = end_of_line("").size();
  if (line.size() < kEnd) return false;
  const std::string_view record = line.substr(0, line.size() - kEnd);
  return line.substr(record.size()) == end_of_line(record);
}

std::size_t whole_bytes(std::string_view text) {
  std::size_t bytes = text.rfind('\n') + 1;
  while (bytes > 0) {
    const std::size_t begin = bytes < 2 ? 0 : text.rfind('\n', bytes - 2) + 1;
    if (is_whole_line(text.substr(begin, bytes - 1 - begin))) break;
    bytes = begin;
  }
  return bytes;
}

JsonLines::JsonLines(const std::filesystem::path& path)
    : file_(path, LockedFile::Open::kOpenOrCreate) {
  std::string text(file_.size_bytes(), '\0');
  file_.read(0, std::as_writable_bytes(std::span(text)));
  first_line_ = text.substr(0, text.find('\n') + 1);  // empty without a newline
  if (first_line_.empty()) first_line_ = text;
  bytes_ = whole_bytes(text);
  has_tail_ = bytes_ < text.size();
}

void JsonLines::truncate(std::uint64_t bytes) {
  file_.truncate(bytes);
  bytes_ = bytes;
  has_tail_ = false;
}

void JsonLines::append(std::string object) {
  check_argument(object.size() > 2 && object.front() == '{' && object.back() == '}',
                 "JsonLines::append: got ", object, ", expected an object with a member");
  object.pop_back();
  object += end_of_line(object) + '\n';
  struct stat status {};
  check_runtime(::fstat(file_.descriptor(), &status) == 0 && status.st_nlink > 0, path().string(),
                ": was removed");
  if (has_tail_) truncate(bytes_);
  try {
    file_.write(bytes_, std::as_bytes(std::span(object)));
  } catch (...) {
    has_tail_ = true;
    truncate(bytes_);
    throw;
  }
  bytes_ += object.size();
}

}  // namespace rowgrad
