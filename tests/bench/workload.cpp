#include "tests/bench/workload.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>

namespace rowgrad::bench {

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
  std::set<std::string> known, wanted;
  std::string all;
  for (const Workload& workload : listed) {
    known.insert(workload.name);
    all += (all.empty() ? "" : ", ") + workload.name;
  }
  for (const std::string& name : names) {
    const auto is_meant = [&](const std::string& other) {
      return known.contains(name) ? other == name : other.starts_with(name + "-");
    };
    check_argument(std::ranges::any_of(known, is_meant), "--workload ", name, ": expected one of ",
                   all);
    std::ranges::copy_if(known, std::inserter(wanted, wanted.end()), is_meant);
  }
  std::vector<Workload> workloads = listed;
  std::erase_if(workloads, [&](const Workload& each) { return !wanted.contains(each.name); });
  return workloads;
}

double distinct_ids(const Workload& workload, std::size_t count) {
  const auto of = static_cast<double>(count);
  const auto ids = static_cast<double>(workload.tokens());
  return -of * std::expm1(ids * std::log1p(-1 / of));
}

}  // namespace rowgrad::bench
