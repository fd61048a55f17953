#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/options/common_options.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>

namespace rowgrad {

/// All options of `rowgrad train`, which its help describes.
struct TrainSettings {
  std::string file = "";  // --options
  std::vector<std::string> corpus = {};
  std::string prompt = "";
  GenerateOptions sample{.max_new_tokens = 200, .temperature = 0.8};
  std::size_t sample_every = 0;
  bool sample_epochs = false;
  bool evaluate_first = false;
  std::string gpt2 = "";
  std::string gpt2_export = "";
  std::string save = "";
  std::size_t save_every = 0;
  std::string resume = "";
  std::string metrics = "";
  std::string json = "";
  std::string row_list = "";
  std::string vectors = "";
  ReportFiles report = {};
  bool force = false;
  std::size_t stop_after = 0;
  std::size_t threads = 0;
  double rank_timeout = 50;  // seconds

  TrainOptions train = {};
};

OptionTable option_table_of(TrainSettings& settings);

/// Functions that return the text of the file of --options, and the options of the saved run.
struct TrainFiles {
  std::function<std::string(const std::string& path)> options_text;
  std::function<TrainOptions(const std::string& path)> saved_run;
};

/// Adds presets, the options file and the saved run to the settings of the command line. Describes
/// in `changes` which options of the saved run change. Reads files only if `files` is not null.
/// Throws std::invalid_argument for an option that must not change in a resumed run.
void complete(Settings& settings, const TrainFiles* files, std::string& changes);

}  // namespace rowgrad
