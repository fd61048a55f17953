#pragma once

// What happens to the rows of a table in the course of training, for a report. Memory grows with
// the rows that had a gradient, not with the table.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

class RowHistory {
 public:
  /// `kind` is what a row stands for: "token", "position" or "distance". The table must outlive
  /// this.
  RowHistory(Parameter& table, std::string kind);

  void look_up(std::int32_t row, std::size_t times = 1) { waiting_[row] += times; }

  /// To be called before each update, when the table has its gradient. `decay` is the share of each
  /// value that weight decay takes in this step, also from rows without a gradient.
  void before_update(std::uint64_t step, double decay);

  /// Adds a frame of what has happened so far. At most kMostFrames are kept, at equal distances.
  void take_frame(std::uint64_t step);

  /// The rows that had most lookups, the most frequent first.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  const Parameter& table() const { return *table_; }
  const std::string& kind() const { return kind_; }

  /// As in examples/report/README.md.
  nlohmann::json to_json() const;

 private:
  static constexpr std::size_t kMostFrames = 20;

  struct Row {
    std::uint64_t lookups = 0;
    std::uint64_t steps = 0;
    std::uint64_t last = 0;
    double squares = 0;
    double momentum = 0;
    double decay = 0;
  };
  struct Frame {
    std::uint64_t step;
    std::vector<Row> rows;  // of all rows so far, in the order of their first gradients
    std::vector<float> moved;
  };

  void begin(const std::vector<std::int32_t>& ids);
  void add_gradient(std::uint64_t step, std::int32_t id, std::span<const real> values);

  Parameter* table_;
  std::string kind_;
  std::unordered_map<std::int32_t, std::size_t> waiting_;  // lookups since the last update
  std::unordered_map<std::int32_t, std::size_t> places_;
  std::vector<std::int32_t> ids_;  // of the rows, by place
  std::vector<Row> rows_;
  std::vector<real> first_;   // the values of each row before its first update,
  std::vector<real> latest_;  // and in the last frame
  std::vector<Frame> frames_;
  std::uint64_t last_step_ = 0;
  double kept_ = 1;  // what decay has left of rows without gradient since the last frame
  double kept_in_all_ = 1;
  bool has_decayed_ = false;
  bool dense_ = false;
};

/// The number with three significant digits, which keeps files short.
double rounded(double number);

}  // namespace rowgrad
