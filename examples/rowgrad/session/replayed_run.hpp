#pragma once

// Trains a saved run again to inspect it, for `rowgrad rows`.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

class ReplayedRun {
 public:
  /// Starts the run of the checkpoint `path` at its first step or, if given, at the earlier
  /// checkpoint `from`. Reads the run's own corpus, or the files in `corpus` if there are any.
  /// Leaves the run's table files alone and makes new ones in a temporary folder. Throws like
  /// Session::resume(), and std::invalid_argument if `from` is not earlier, or given for a run with
  /// table files.
  ReplayedRun(const std::string& path, const std::string& from,
              const std::vector<std::string>& corpus);

  /// Trains up to the checkpoint. Throws std::runtime_error unless all parameters in memory equal
  /// the checkpoint, bit for bit.
  void train();

  /// Describes the result of train().
  std::string outcome() const;

  /// Returns true if load() can replace train(): the checkpoint has the row history of all steps,
  /// and no table is in a file.
  bool has_history() const;
  /// Reads the checkpoint and the history.
  void load(RowHistory& rows);

  Session& session() { return *session_; }
  const Corpus& corpus() const { return corpus_; }

  /// Returns the run's table files on all ranks, and their undo files.
  std::vector<std::string> table_files() const;

  /// Returns the step before train().
  std::size_t first() const { return first_; }
  /// Returns the step of the checkpoint.
  std::size_t last() const { return last_; }

 private:
  bool has_table_files() const { return !options_.table_paths().empty(); }

  std::string path_;
  StateDict file_;
  TrainOptions options_;
  Corpus corpus_;
  std::size_t last_;
  std::unique_ptr<Session> session_;
  std::size_t first_ = 0;
};

}  // namespace rowgrad
