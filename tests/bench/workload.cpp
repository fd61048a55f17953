#include "tests/bench/workload.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>

namespace rowgrad::bench {
namespace {

// Whether this is its name, or the part of its name before a hyphen.
bool answers_to(const Workload& workload, const std::string& name) {
  return workload.name == name || workload.name.starts_with(name + "-");
}

bool is_name_of_one(const std::vector<Workload>& listed, const std::string& name) {
  return std::any_of(listed.begin(), listed.end(),
                     [&](const Workload& workload) { return workload.name == name; });
}

}  // namespace

std::vector<Workload> listed_workloads(const std::string& sweep, int threads) {
  const auto list = nlohmann::json::parse(read_file(ROWGRAD_BENCH_WORKLOADS));
  const auto& chosen = sweep.empty() ? list.at("workloads") : list.at("sweeps").at(sweep);
  auto workloads = chosen.get<std::vector<Workload>>();
  for (Workload& workload : workloads) workload.threads = threads;
  if (sweep != "threads") return workloads;

  std::set<int> counts{threads};
  for (int count = 1; count < threads; count *= 2) counts.insert(count);
  std::vector<Workload> points;
  for (const Workload& workload : workloads) {
    for (const int count : counts) {
      points.push_back(workload);
      points.back().name += concat("-threads-", count);
      points.back().threads = count;
    }
  }
  return points;
}

std::vector<Workload> selected(const std::vector<Workload>& listed,
                               const std::vector<std::string>& names) {
  if (names.empty()) return listed;
  std::set<std::string> wanted;
  for (const std::string& name : names) {
    const bool one = is_name_of_one(listed, name);
    bool found = false;
    for (const Workload& workload : listed) {
      if (one ? workload.name != name : !answers_to(workload, name)) continue;
      wanted.insert(workload.name);
      found = true;
    }
    if (found) continue;
    std::string all;
    for (const Workload& workload : listed) all += (all.empty() ? "" : ", ") + workload.name;
    check_argument(false, "--workload ", name, ": expected one of ", all);
  }
  std::vector<Workload> workloads;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(workloads),
               [&](const Workload& workload) { return wanted.contains(workload.name); });
  return workloads;
}

double distinct_ids(const Workload& workload, std::size_t count) {
  const auto of = static_cast<double>(count);
  const auto ids = static_cast<double>(workload.tokens());
  return -of * std::expm1(ids * std::log1p(-1 / of));
}

}  // namespace rowgrad::bench
