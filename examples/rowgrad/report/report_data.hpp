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
  std::string place;  // "run.log, line 7"
  Json data;          // the whole object
};

/// Reads a log, except what a killed program left at its end: see whole_bytes(). Throws
/// std::system_error or std::runtime_error for a file that is not a log or cannot be read, and for
/// a damaged line, which it names.
std::vector<LogRecord> read_log(const std::filesystem::path& path);

/// Returns the data of the page, as page/types.d.ts describes it. Throws std::runtime_error for a
/// record with other members than FORMAT.md says, whose line it names.
Json report_data(std::vector<LogRecord> records);

/// Reads a log and writes its page and its data to files of these names, unless a name is empty.
/// Throws like read_log() and report_data(), and like check_report_page() if `page` is not empty.
void write_report(const std::filesystem::path& log, const std::string& page,
                  const std::string& data);

}  // namespace rowgrad
