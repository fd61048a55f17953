#pragma once

// Trains a saved run again, to see what it did. rows --explain asks why a row moved.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

class ReplayedRun {
 public:
  /// Begins the run of the checkpoint `path` at its first step or, unless `from` is "", at this
  /// earlier checkpoint. Reads its own text, or the files in `corpus` if there are any. Its tables
  /// in files are not touched, but made again in a temporary folder. Throws like Session::resume(),
  /// and std::invalid_argument for a `from` that is not earlier, or with tables in files, which
  /// cannot be made again from there.
  ReplayedRun(const std::string& path, const std::string& from,
              const std::vector<std::string>& corpus);

  /// Trains up to the checkpoint. Throws std::runtime_error unless all parameters in memory then
  /// have the bits of the checkpoint.
  void train();

  /// Says what train() has found.
  std::string outcome() const;

  /// Returns true if the run was watched from its start, so that the checkpoint has the history of
  /// its rows. load() reads the checkpoint and this history, and replaces train().
  bool has_history() const;
  void load(RowHistory& rows);

  Session& session() { return *session_; }
  const Corpus& corpus() const { return corpus_; }

  /// Returns the files of its tables, also of other ranks, and their journals.
  std::vector<std::string> table_files() const;

  std::size_t first() const { return first_; }  // the step that it begins at
  std::size_t last() const { return last_; }    // the step of the checkpoint

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
