#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// `W1b-1k  embed  sgd  V 1000  d 256  B 64  T 256  2 threads`, in columns, without a line's end.
void print_workload(std::ostream& out, const Workload& workload);

/// What follows on that line: the median step, tokens a second, peak memory, what the step consists
/// of; the floor if there.
void print_result(std::ostream& out, const nlohmann::json& result);

/// The whole run as one object, in the form that torch_workloads.py writes too.
nlohmann::json run_json(const std::vector<nlohmann::json>& results);

}  // namespace rowgrad::bench
