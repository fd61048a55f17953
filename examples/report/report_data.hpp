#pragma once

// Makes the data of a page from the log of a run.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>

namespace rowgrad {

/// A line of a log: see FORMAT.md.
struct LogRecord {
  std::string event;
  std::uint64_t step = 0;
  Json data;  // the whole object
};

/// Reads a log, without what resumed runs took back, and without a last line that is not whole.
/// Throws std::runtime_error for a file that is not a log, and for a damaged line, which it names.
std::vector<LogRecord> read_log(const std::filesystem::path& path);

/// Returns the data of the page, as page/types.d.ts describes it.
Json report_data(std::vector<LogRecord> records);

/// Makes of a log the files of these names; none of an empty one. Throws std::runtime_error as
/// read_log(), and as check_report_page() if there is to be a page.
void write_report(const std::filesystem::path& log, const std::string& page,
                  const std::string& data);

}  // namespace rowgrad
