#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/train_options.hpp>

namespace rowgrad {

/// The files of a report, "" for none.
struct ReportFiles {
  std::string page = {};  // HTML
  std::string data = {};  // JSON
  std::string log = {};   // from which both are made; their name and .log if not given
};

/// The options of the run, and of the program's other work.
struct TrainSettings {
  std::string file = "";  // of options
  std::vector<std::string> corpus = {};
  std::string prompt = "";
  GenerateOptions sample{.count = 200, .temperature = 0.8};
  std::size_t sample_every = 0;
  bool sample_epochs = false;
  bool evaluate_first = false;
  std::string book = "";         // the book's run to compare with: "5" or "d"
  std::string gpt2 = "";         // folder of weights to start from
  std::string gpt2_export = "";  // file for the trained weights, in the same layout
  std::string save = "";
  std::size_t save_every = 0;
  std::string resume = "";
  std::string metrics = "";
  std::string json = "";
  std::string row_list = "";
  ReportFiles report = {};
  bool force = false;
  std::size_t stop_after = 0;
  std::size_t threads = 0;
  double rank_patience = 50;  // seconds

  TrainOptions train = {};
};

}  // namespace rowgrad
