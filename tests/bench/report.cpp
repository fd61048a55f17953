#include "tests/bench/report.hpp"

#include <iomanip>
#include <ostream>

#include <rowgrad/core/base/check.hpp>

namespace rowgrad::bench {

void print_workload(std::ostream& out, const Workload& workload) {
  out << std::left << std::setw(20) << workload.name << std::setw(6) << workload.model
      << std::setw(15) << workload.optimizer << " V " << std::setw(8) << workload.vocabulary << "d "
      << std::setw(5) << workload.width << "B " << std::setw(4) << workload.batch << "T "
      << std::setw(4) << workload.context << workload.threads
      << (workload.threads == 1 ? " thread " : " threads") << std::right;
}

void print_result(std::ostream& out, const nlohmann::json& result) {
  constexpr double kMebibyte = 1 << 20;
  const auto number = [&](const char* key) { return result.at(key).get<double>(); };
  out << std::fixed << std::setprecision(1) << std::setw(12) << number("median_us") << " µs"
      << std::setprecision(0) << std::setw(12) << number("tokens_per_second") << " tokens/s"
      << std::setw(8) << number("peak_bytes") / kMebibyte << " MiB";
  const char* separator = "   ";
  for (const char* part : {"forward", "backward", "update"}) {
    out << separator << part << ' '
        << 100 * number(concat(part, "_us").c_str()) / number("median_us") << " %";
    separator = ", ";
  }
  if (result.contains("floor"))
    out << "  floor " << std::setprecision(1) << result.at("floor").at("floor_us").get<double>()
        << " µs";
}

nlohmann::json run_json(const std::vector<nlohmann::json>& results) {
  return {{"program", "rowgrad"}, {"results", results}};
}

}  // namespace rowgrad::bench
