#include <span>
#include <sys/stat.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/json_lines.hpp>

namespace rowgrad {
namespace {

// The end of a line whose object began with `record`, which lacks the brace.
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

JsonLines::JsonLines(const std::filesystem::path& path) : file_(path, LockedFile::Open::kEither) {
  std::string text(file_.size_bytes(), '\0');
  file_.read(0, std::as_writable_bytes(std::span(text)));
  first_line_ = text.substr(0, text.find('\n'));
  whole_bytes_ = text.rfind('\n') + 1;
  while (whole_bytes_ > 0) {
    const std::size_t begin = whole_bytes_ < 2 ? 0 : text.rfind('\n', whole_bytes_ - 2) + 1;
    if (is_whole_line(std::string_view(text).substr(begin, whole_bytes_ - 1 - begin))) break;
    whole_bytes_ = begin;
  }
}

void JsonLines::truncate(std::uint64_t bytes) {
  file_.truncate(bytes);
  bytes_ = bytes;
}

void JsonLines::append(std::string object) {
  object.pop_back();
  object += end_of_line(object) + '\n';
  struct stat status {};
  check_runtime(::fstat(file_.descriptor(), &status) == 0 && status.st_nlink > 0, path().string(),
                ": was removed");
  try {
    file_.write(bytes_, std::as_bytes(std::span(object)));
  } catch (...) {
    file_.truncate(bytes_);
    throw;
  }
  bytes_ += object.size();
}

}  // namespace rowgrad
