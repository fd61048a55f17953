#pragma once

// The programs that train: train_verdict and train_gpt.

#include <string>
#include <vector>

#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/train_options.hpp>

namespace rowgrad {

/// What a training program does besides training. The values are the defaults of its options.
struct TrainProgram {
  std::vector<std::string> corpus = {};
  std::string prompt = "";
  std::size_t sample = 200;
  std::size_t sample_every = 0;
  bool sample_epochs = false;
  double temperature = 0.8;
  std::size_t top_k = 0;
  bool untrained = false;
  std::string book = "";         // the run whose log is shown beside this one's: "5" or "d"
  std::string gpt2 = "";         // folder of weights to start from
  std::string gpt2_export = "";  // file for the trained weights, in the same layout
  std::string save = "";
  std::size_t save_every = 0;
  std::string resume = "";
  std::string metrics = "";
  std::string json = "";
  std::string row_list = "";
  ReportOptions report = {};
  std::size_t max_steps = 0;
  std::size_t threads = 0;
  double rank_patience = 50;  // seconds

  TrainOptions train = {};
};

OptionTable option_table_of(TrainProgram& program);

/// Trains, and reports, saves and samples as the options say. `line` knows which were given.
void run_training_program(const CommandLine& line, const TrainProgram& program);

}  // namespace rowgrad
