#pragma once

// Makes a training run again from its checkpoint, to see what it did. rows --explain asks why
// one row moved.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/callbacks/row_movement.hpp>

namespace rowgrad {

class ReplayedRun {
 public:
  /// The run of the checkpoint `path`, before its first step or at an earlier checkpoint of it,
  /// `from` ("" for none), on its own text or on the files in `corpus`, if there are any.
  /// Its tables in files are not touched: they are made anew in a temporary folder. Throws as
  /// Session::resume(), and std::invalid_argument for a `from` that is no earlier one, or has
  /// tables in files, which cannot be made anew from there.
  ReplayedRun(const std::string& path, const std::string& from,
              const std::vector<std::string>& corpus);

  /// Trains up to the checkpoint. Throws std::runtime_error if that ends at other values.
  void train();

  /// Returns true if the run was watched from its start, so that the checkpoint has the history of
  /// its rows. load() reads the checkpoint and this history, and replaces train().
  bool has_history() const { return has_history_; }
  void load(RowHistory& rows);

  Session& run() { return *run_; }
  const Corpus& corpus() const { return corpus_; }

  /// Returns the files of its tables, also of other ranks, and their undo files.
  std::vector<std::string> table_files() const;

  std::size_t first() const { return first_; }  // the step that it begins at
  std::size_t last() const { return last_; }    // the step of the checkpoint

 private:
  std::string path_;
  Checkpoint file_;
  TrainOptions options_;
  Corpus corpus_;
  std::unique_ptr<Session> run_;
  std::size_t first_, last_;
  bool has_history_ = false;
};

struct WhyOptions {
  std::string row;  // its number, or its token
  std::string table = "token.weight";
  std::size_t steps = 10;  // to show
};

/// Trains the run, and prints why the row has moved.
void print_why(ReplayedRun& again, const WhyOptions& options);

/// A line of the window's text around the first of its positions, which are in brackets.
std::string text_around(const RowMovement::Window& window, const Tokenizer& tokenizer);

}  // namespace rowgrad
