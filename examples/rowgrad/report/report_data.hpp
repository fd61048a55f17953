#pragma once

// Builds the data of a page from the log of a run.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>

namespace rowgrad {

/// A line of a log; see FORMAT.md.
struct LogRecord {
  std::string event;
  std::uint64_t step = 0;
  std::string place;  // "run.log, line 7"
  Json data;          // the whole object
};

/// Reads a log. Ignores incomplete lines that a killed program may leave at the end (see
/// whole_bytes()). Throws std::system_error or std::runtime_error if the file is not a log, cannot
/// be read, or has a damaged line; the message names the line.
std::vector<LogRecord> read_log(const std::filesystem::path& path);

/// Returns the data of the page (page/types.d.ts). Throws std::runtime_error for a record that does
/// not follow FORMAT.md; the message names the line.
Json report_data(std::vector<LogRecord> records);

/// Reads a log and writes its page to `page` and its data to `data`; "" for none. Throws
/// like read_log() and report_data(), and like check_report_page() if `page` is not empty.
void write_report(const std::filesystem::path& log, const std::string& page,
                  const std::string& data);

}  // namespace rowgrad
