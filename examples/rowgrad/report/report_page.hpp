#pragma once

// Builds a report's page from its data and examples/rowgrad/report/page.

#include <string>
#include <string_view>

namespace rowgrad {

/// The page's parts before and after the data; empty if the programs were built without the
/// chart library.
extern const std::string_view kReportBefore;
extern const std::string_view kReportAfter;

/// Throws std::runtime_error if the programs were built without the chart library. The message
/// names the package to install.
void check_report_page();

/// Returns the page for this JSON data. Throws like check_report_page().
std::string report_page(const std::string& data);

}  // namespace rowgrad
