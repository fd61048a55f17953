#pragma once

#include <string_view>

namespace rowgrad {

/// The page of a report, before and after its data; empty if the chart library was not there when
/// the programs were built.
extern const std::string_view kReportBefore;
extern const std::string_view kReportAfter;

}  // namespace rowgrad
