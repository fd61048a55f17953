#pragma once

// The page of a report: examples/rowgrad/report/page, with the data in it.

#include <string>
#include <string_view>

namespace rowgrad {

/// The page before and after its data; empty if the chart library was not there when the programs
/// were built.
extern const std::string_view kReportBefore;
extern const std::string_view kReportAfter;

/// Throws std::runtime_error if the programs were built without the chart library, saying what to
/// install.
void check_report_page();

/// The whole page, for data as JSON. Throws as check_report_page does.
std::string report_page(const std::string& data);

}  // namespace rowgrad
