#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <rowgrad/optim/rule_functions.hpp>
#include <rowgrad/optim/step_history.hpp>

namespace rowgrad {
namespace {

// Calls function(N) for N = n: with a size that the compiler knows, loops over small maps unroll.
template <std::size_t N = 1>
void with_size(std::size_t n, const auto& function) {
  if constexpr (N <= 1 + kMostStates) {
    if (n == N)
      function(std::integral_constant<std::size_t, N>());
    else
      with_size<N + 1>(n, function);
  }
}

template <std::size_t N>
LinearMap<N> map_at(const std::vector<Coefficient>& maps, std::size_t i) {
  LinearMap<N> map;
  std::memcpy(&map, maps.data() + i * N * N, sizeof map);
  return map;
}

template <std::size_t N>
void push_back(std::vector<Coefficient>& maps, const LinearMap<N>& map) {
  maps.insert(maps.end(), map[0].data(), map[0].data() + N * N);
}

// Reserves memory for `count` more items, in amortised constant time.
template <class T>
void make_room(std::vector<T>& items, std::size_t count = 1) {
  if (items.size() + count > items.capacity()) items.reserve(2 * items.size() + count);
}

// Whether thousands of such steps keep values within kMostGrowth. If not, values may leave the
// range of `real` in between and return at the end, which the composed map would not show.
template <std::size_t N>
bool is_bounded(LinearMap<N> map) {
  for (int doubling = 0; doubling <= 12; ++doubling) {
    for (const auto& row : map)
      for (const Coefficient coefficient : row)
        if (!(std::abs(coefficient) <= kMostGrowth)) return false;
    map = compose<N>(map, map);
  }
  return true;
}

}  // namespace

template <std::size_t N>
LinearMap<N> compose(const LinearMap<N>& after, const LinearMap<N>& before) {
  constexpr Coefficient kLeast = std::numeric_limits<Coefficient>::min();
  LinearMap<N> result{};
  for (std::size_t i = 0; i < N; ++i)
    for (std::size_t k = 0; k < N; ++k)
      if (after[i][k] != 0)
        for (std::size_t j = 0; j < N; ++j)
          if (before[k][j] != 0) {
            const Coefficient product = after[i][k] * before[k][j];
            result[i][j] += std::abs(product) < kLeast ? std::copysign(kLeast, product) : product;
          }
  return result;
}

template <std::size_t N>
LinearMap<N> idle_map(const RuleFunctions& rule, const real* members) {
  LinearMap<N> map{};
  for (std::size_t column = 0; column < N; ++column) {
    std::array<double, N> unit{};
    unit[column] = 1;
    rule.idle_step(members, unit.data());
    for (std::size_t i = 0; i < N; ++i) map[i][column] = unit[i];
  }
  // What else Adam does is not linear: see adam_steps.hpp.
  if (rule.idle(members) == Idle::kAdam)
    for (std::size_t i = 0; i < N; ++i)
      for (std::size_t j = 0; j < N; ++j)
        if (i != j) map[i][j] = 0;
  return map;
}

std::size_t StepHistory::member_count() const { return rule_->members; }

std::size_t StepHistory::map_size() const {
  return (1 + rule_->states.size()) * (1 + rule_->states.size());
}

void StepHistory::forget(std::size_t count) {
  const auto drop = [](auto& items, std::size_t first) {
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(first));
  };
  drop(runs_, count);
  drop(members_, count * member_count());
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    drop(blocks_[i], (count >> (kLeastLevel + i)) * map_size());
}

void StepHistory::reserve_step() {
  make_room(runs_);
  make_room(members_, member_count());
  make_room(powers_, map_size());
  for (std::size_t i = 0; i < blocks_completed(); ++i) {
    if (blocks_.size() == i) blocks_.emplace_back();
    make_room(blocks_[i], map_size());
  }
}

// How many levels get a block if another run begins.
std::size_t StepHistory::blocks_completed() const {
  const auto zeros = static_cast<std::size_t>(std::countr_zero(runs_.size()));
  return runs_.empty() || zeros < kLeastLevel ? 0 : zeros - kLeastLevel + 1;
}

void StepHistory::append(const real* members, std::uint64_t count) {
  with_size(1 + rule_->states.size(), [&](auto n) {
    if (!runs_.empty() &&
        std::equal(members, members + member_count(), this->members(runs_.size() - 1)))
      runs_.back().end += count;
    else
      append_run<n>(members, count);
    extend_powers<n>();
  });
  if (runs_.back().idle == Idle::kReplay) last_replay_ = steps();
}

template <std::size_t N>
void StepHistory::append_run(const real* members, std::uint64_t count) {
  Run next{rule_->idle(members), steps() + count};
  if (next.idle != Idle::kReplay && !is_bounded<N>(idle_map<N>(*rule_, members)))
    next.idle = Idle::kReplay;
  for (std::size_t i = 0; i < blocks_completed(); ++i) {
    if (blocks_.size() == i) blocks_.emplace_back();
    const std::size_t level = kLeastLevel + i;
    push_back<N>(blocks_[i], block<N>(level, (runs_.size() >> level) - 1));
  }
  runs_.push_back(next);
  members_.insert(members_.end(), members, members + member_count());
  powers_.clear();
}

std::size_t StepHistory::run_of(std::uint64_t step) const {
  if (step > begin_of(runs_.size() - 1)) return runs_.size() - 1;
  const auto found =
      std::lower_bound(runs_.begin(), runs_.end(), step,
                       [](const Run& run, std::uint64_t wanted) { return run.end < wanted; });
  return static_cast<std::size_t>(found - runs_.begin());
}

std::uint64_t StepHistory::closed_until(std::uint64_t from) const {
  if (from >= last_replay_) return steps();
  std::size_t run = run_of(from + 1);
  while (runs_[run].idle != Idle::kReplay) ++run;
  return std::max(from, begin_of(run));
}

template <std::size_t N>
LinearMap<N> StepHistory::compose_steps(std::uint64_t from, std::uint64_t to) const {
  if (from == to) return identity_map<N>();
  std::size_t run = run_of(from + 1);
  const std::size_t last = run_of(to);
  if (run == last) return power<N>(run, to - from);
  LinearMap<N> result = identity_map<N>();
  if (from > begin_of(run)) {
    result = power<N>(run, runs_[run].end - from);
    ++run;
  }
  while (run < last) {  // the largest aligned block that begins here and ends before `last`
    std::size_t level = 0;
    while ((run >> level & 1) == 0 && run + (std::size_t{2} << level) <= last) ++level;
    result = compose<N>(block<N>(level, run >> level), result);
    run += std::size_t{1} << level;
  }
  return compose<N>(power<N>(last, to - begin_of(last)), result);
}

// One step of a run; meaningless for kReplay.
template <std::size_t N>
LinearMap<N> StepHistory::step_of(std::size_t run) const {
  return runs_[run].idle == Idle::kReplay ? identity_map<N>() : idle_map<N>(*rule_, members(run));
}

// Runs i · 2^level … (i + 1) · 2^level − 1, but the last, which may go on.
template <std::size_t N>
LinearMap<N> StepHistory::block(std::size_t level, std::size_t i) const {
  if (level == 0) return power<N>(i, runs_[i].end - begin_of(i));
  if (level >= kLeastLevel && level - kLeastLevel < blocks_.size())
    if (const Maps& kept = blocks_[level - kLeastLevel]; i < kept.size() / (N * N))
      return map_at<N>(kept, i);
  return compose<N>(block<N>(level - 1, 2 * i + 1), block<N>(level - 1, 2 * i));
}

// The step of a run, applied `count` times.
template <std::size_t N>
LinearMap<N> StepHistory::power(std::size_t run, std::uint64_t count) const {
  LinearMap<N> result = identity_map<N>();
  bool first = true;
  const bool known = run + 1 == runs_.size();
  LinearMap<N> square = known ? map_at<N>(powers_, 0) : step_of<N>(run);
  for (std::size_t bit = 0; count >> bit != 0; ++bit) {
    if (known) {
      if ((count >> bit & 1) != 0) square = map_at<N>(powers_, bit);
    } else if (bit > 0) {
      square = compose<N>(square, square);
    }
    if ((count >> bit & 1) != 0)
      result = std::exchange(first, false) ? square : compose<N>(square, result);
  }
  return result;
}

template <std::size_t N>
void StepHistory::extend_powers() {
  const std::uint64_t count = runs_.back().end - begin_of(runs_.size() - 1);
  for (std::size_t bits = powers_.size() / (N * N); count >> bits != 0; ++bits) {
    if (bits == 0) {
      push_back<N>(powers_, step_of<N>(runs_.size() - 1));
      continue;
    }
    const LinearMap<N> half = map_at<N>(powers_, bits - 1);
    push_back<N>(powers_, compose<N>(half, half));
  }
}

// For the loops over rows, which know their rule's number of states.
#define ROWGRAD_MAPS_OF(n)                                                    \
  template LinearMap<n> compose<n>(const LinearMap<n>&, const LinearMap<n>&); \
  template LinearMap<n> idle_map<n>(const RuleFunctions&, const real*);       \
  template LinearMap<n> StepHistory::compose_steps<n>(std::uint64_t, std::uint64_t) const
ROWGRAD_MAPS_OF(1);
ROWGRAD_MAPS_OF(2);
ROWGRAD_MAPS_OF(3);
ROWGRAD_MAPS_OF(4);
ROWGRAD_MAPS_OF(5);
ROWGRAD_MAPS_OF(6);
ROWGRAD_MAPS_OF(7);
ROWGRAD_MAPS_OF(8);
ROWGRAD_MAPS_OF(9);

}  // namespace rowgrad
