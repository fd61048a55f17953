#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// `W1b-1k embed sgd V 1000 d 256 B 64 T 256 2 threads`, in columns, without a line end.
void print_workload(std::ostream& out, const Workload& workload);

/// The rest of that line: the median step, tokens per second, peak memory, the parts of a step, and
/// the floor if it is there.
void print_result(std::ostream& out, const nlohmann::json& result);

/// The whole run as one object, in the form that torch_workloads.py writes too.
nlohmann::json run_json(const std::vector<nlohmann::json>& results);

}  // namespace rowgrad::bench
