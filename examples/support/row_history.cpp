#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/examples/support/row_history.hpp>

namespace rowgrad {
namespace {

// |a − factor · b|
double distance(std::size_t width, const real* a, const real* b, double factor = 1) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const double difference = static_cast<double>(a[i]) - factor * static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

}  // namespace

double rounded(double number) {
  if (!std::isfinite(number)) return number;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return std::strtod(text, nullptr);
}

RowHistory::RowHistory(Parameter& table, std::string kind)
    : table_(&table), kind_(std::move(kind)) {}

// Remembers the values that these rows begin with, if it does not know them yet.
void RowHistory::begin(const std::vector<std::int32_t>& ids) {
  const std::size_t known = ids_.size();
  for (const std::int32_t id : ids)
    if (places_.emplace(id, ids_.size()).second) ids_.push_back(id);
  if (ids_.size() == known) return;
  const Tensor values = table_->rows(std::span(ids_).subspan(known));
  rows_.resize(ids_.size());
  first_.insert(first_.end(), values.begin(), values.end());
  latest_.insert(latest_.end(), values.begin(), values.end());
}

void RowHistory::add_gradient(std::uint64_t step, std::int32_t id, std::span<const real> values) {
  Row& row = rows_[places_.at(id)];
  ++row.steps;
  row.last = step;
  row.squares += static_cast<double>(kernels::sum_span(
      values.size(), [](const kernels::Simd& x) { return x * x; }, values.data()));
}

void RowHistory::before_update(std::uint64_t step, double decay) {
  last_step_ = step;
  kept_ *= 1 - decay;
  kept_in_all_ *= 1 - decay;
  has_decayed_ |= decay != 0;
  const Gradient& gradient = table_->gradient();
  if (gradient.is_none()) return waiting_.clear();
  dense_ |= gradient.is_dense();
  if (gradient.is_dense()) {  // every row has a gradient: follow those that are looked up
    std::vector<std::int32_t> ids;
    for (const auto& [id, times] : waiting_) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    begin(ids);
    const std::size_t width = table_->shape()[1];
    for (const std::int32_t id : ids)
      add_gradient(step, id,
                   {gradient.dense().data() + static_cast<std::size_t>(id) * width, width});
  } else {
    begin(gradient.rows().indices());
    for (const auto [id, values] : gradient.rows()) add_gradient(step, id, values);
  }
  for (const auto& [id, times] : waiting_)
    if (const auto found = places_.find(id); found != places_.end())
      rows_[found->second].lookups += times;
  waiting_.clear();
}

void RowHistory::take_frame(std::uint64_t step) {
  if (!frames_.empty() && frames_.back().step == step) return;
  const std::uint64_t before = frames_.empty() ? 0 : frames_.back().step;
  const std::size_t width = table_->shape()[1];
  Frame frame{step, {}, {}};
  if (!ids_.empty()) {
    const Tensor values = table_->rows(ids_);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const real* now = values.data() + i * width;
      const real* then = latest_.data() + i * width;
      if (rows_[i].last <= before) {  // without a gradient since the last frame
        rows_[i].momentum += distance(width, now, then, kept_);
        rows_[i].decay += (1 - kept_) * distance(width, then, then, 0);
      }
      frame.moved.push_back(static_cast<float>(distance(width, now, first_.data() + i * width)));
    }
    std::copy(values.begin(), values.end(), latest_.begin());
  }
  frame.rows = rows_;
  kept_ = 1;
  if (frames_.size() == kMostFrames) {  // every second one stays
    for (std::size_t i = 1; 2 * i < frames_.size(); ++i) frames_[i] = std::move(frames_[2 * i]);
    frames_.resize(kMostFrames / 2);
  }
  frames_.push_back(std::move(frame));
}

std::vector<std::int32_t> RowHistory::most_frequent(std::size_t count) const {
  std::vector<std::size_t> places(ids_.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return rows_[a].lookups > rows_[b].lookups;
  });
  places.resize(std::min(count, places.size()));
  std::vector<std::int32_t> ids;
  for (const std::size_t place : places) ids.push_back(ids_[place]);
  return ids;
}

nlohmann::json RowHistory::to_json() const {
  using nlohmann::json;
  json frames = json::array();
  for (const Frame& frame : frames_) {
    json one{{"step", frame.step},     {"rows", json::array()}, {"lookups", json::array()},
             {"steps", json::array()}, {"last", json::array()}, {"norm", json::array()},
             {"moved", json::array()}};
    for (std::size_t i = 0; i < frame.rows.size(); ++i) {
      const Row& row = frame.rows[i];
      one["rows"].push_back(ids_[i]);
      one["lookups"].push_back(row.lookups);
      one["steps"].push_back(row.steps);
      one["last"].push_back(row.last);
      one["norm"].push_back(rounded(std::sqrt(row.squares)));
      one["moved"].push_back(rounded(static_cast<double>(frame.moved[i])));
    }
    frames.push_back(std::move(one));
  }
  json idle{{"rows", json::array()}, {"momentum", json::array()}, {"decay", json::array()}};
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (dense_ || (rows_[i].momentum == 0 && rows_[i].decay == 0)) continue;
    idle["rows"].push_back(ids_[i]);
    idle["momentum"].push_back(rounded(rows_[i].momentum));
    idle["decay"].push_back(rounded(rows_[i].decay));
  }
  json table{{"name", table_->name()},      {"kind", kind_},
             {"rows", table_->shape()[0]},  {"width", table_->shape()[1]},
             {"frames", std::move(frames)}, {"idle", std::move(idle)}};
  if (dense_) table["dense"] = true;
  if (has_decayed_) table["decayed"] = rounded(kept_in_all_);
  return table;
}

}  // namespace rowgrad
