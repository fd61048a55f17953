#pragma once

// The page of a report: examples/report, with the data in it.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace rowgrad {

/// The page before and after its data; empty if the chart library was not there when the programs
/// were built.
extern const std::string_view kReportBefore;
extern const std::string_view kReportAfter;

/// Throws std::runtime_error if the programs were built without the chart library, saying what to
/// install.
void check_report_page();

/// The whole page. Throws as check_report_page does.
std::string report_page(const nlohmann::json& report);

/// The data alone. Bytes that are not UTF-8 are replaced.
std::string report_data(const nlohmann::json& report);

}  // namespace rowgrad
