#pragma once

// What happens to the rows of a table in the course of training, for reports. Memory grows with
// the rows that had a gradient, not with the table.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {

/// What the rows of a table stand for.
enum class RowKind { kToken, kPosition, kDistance };
const char* name_of(RowKind kind);  // "token"

class RowHistory {
 public:
  /// What a row has gone through so far.
  struct Row {
    std::uint64_t lookups = 0;
    std::uint64_t steps = 0;  // in which it had a gradient,
    std::uint64_t last = 0;   // and the last one of these
    double squares = 0;       // of all its gradients
    double largest = 0;       // gradient norm of a step
    double momentum = 0;      // distance moved without a gradient, by momentum,
    double decay = 0;         // and by weight decay
  };

  /// `of_a_window` are the rows that every window looks up, by position or distance; none for
  /// tokens. `labels` are what each row stands for, where that is not its number. The table must
  /// outlive this.
  RowHistory(Parameter& table, RowKind kind, std::vector<std::int32_t> of_a_window = {},
             std::vector<std::string> labels = {});

  void look_up(const Batch& batch);

  /// To be called before each update, when the table has its gradient. `decay` is the share of each
  /// value that weight decay takes in this step, also from rows without a gradient.
  void before_update(std::uint64_t step, double decay);

  /// Adds a frame of what has happened so far. At most kMostFrames are kept, at equal distances.
  void take_frame(std::uint64_t step);

  /// The rows that had most lookups, the most frequent first.
  std::vector<std::int32_t> most_frequent(std::size_t count) const;

  /// The rows that had a gradient, in the order of their first ones; what happened to each, and how
  /// far each is from where it began.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<double> moved() const;

  const Parameter& table() const { return *table_; }
  RowKind kind() const { return kind_; }
  const std::vector<std::int32_t>& of_a_window() const { return of_a_window_; }

  /// As in examples/report/README.md.
  nlohmann::json to_json() const;

 private:
  static constexpr std::size_t kMostFrames = 20;

  struct Frame {
    std::uint64_t step;
    std::vector<Row> rows;  // of all rows so far
    std::vector<float> moved;
  };

  void begin(std::span<const std::int32_t> ids);
  void add_gradient(std::uint64_t step, std::int32_t id, std::span<const real> values);
  std::vector<double> moved_to(const Tensor& values) const;

  Parameter* table_;
  RowKind kind_;
  std::vector<std::int32_t> of_a_window_;
  std::vector<std::string> labels_;
  std::unordered_map<std::int32_t, std::size_t> waiting_;  // lookups since the last update
  std::unordered_map<std::int32_t, std::size_t> places_;   // of the rows in what follows
  std::vector<std::int32_t> ids_;
  std::vector<Row> rows_;
  std::vector<real> first_;   // the values of each row before its first update,
  std::vector<real> latest_;  // and in the last frame
  std::vector<Frame> frames_;
  double kept_ = 1;  // what decay has left of rows without gradient since the last frame
  double kept_in_all_ = 1;
  bool has_decayed_ = false;
  bool dense_ = false;
};

/// A history for each table of embeddings that the model has: of tokens, then of positions or of
/// distances, in windows of `context` tokens.
std::vector<RowHistory> row_histories(LanguageModel& model, std::size_t context);

/// The number with three significant digits, which keeps files short.
double rounded(double number);

}  // namespace rowgrad
