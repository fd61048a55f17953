#pragma once

// The files that programs write. A file is replaced if it is empty or if a program wrote it for the
// same purpose, which its contents show. Any other file is replaced only with --force.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/common_options.hpp>

namespace rowgrad {

/// The purpose of an output.
struct OutputKind {
  const char* name;  // for messages: "a run"
  /// Returns true if the file was written for this purpose. Otherwise returns false or throws.
  std::function<bool(const std::filesystem::path& file)> is_in;
};

extern const OutputKind kRunFile;         // train --save
extern const OutputKind kRunJson;         // train --json
extern const OutputKind kLossesCsv;       // train --metrics
extern const OutputKind kRowList;         // train --row-list
extern const OutputKind kGpt2Weights;     // train --gpt2-export
extern const OutputKind kWordVectors;     // train --vectors
extern const OutputKind kVectorWords;     // train --vectors FILE.npy: FILE.words.txt
extern const OutputKind kNearestJson;     // rows --near --json
extern const OutputKind kRowsJson;        // rows --json
extern const OutputKind kRowsCsv;         // rows --csv
extern const OutputKind kReportPage;      // --report
extern const OutputKind kReportData;      // --report-data
extern const OutputKind kRunLog;          // --log
extern const OutputKind kTokenizerFile;   // tokenize --save
extern const OutputKind kTokenIds;        // tokenize --output
extern const OutputKind kClassifierFile;  // finetune --save
extern const OutputKind kAdapterFile;     // finetune --save-adapters
extern const OutputKind kMeasurements;    // bench_workloads --json
extern const OutputKind kCheckedLater;    // for files that the caller checks

struct Output {
  std::string option;  // "--json"
  std::string path;    // "" if the option is not given
  OutputKind kind;
};

/// Checks all `outputs`. Throws std::runtime_error if the folder of an output does not exist, if no
/// temporary file can be created next to the output, if the output is a folder, or if it is a file
/// of another kind and `force` is false. Also throws if an output is the same file as an input or
/// another output, under any path. Inputs are `read`, files in folders of labelled texts, The
/// Verdict and GPT-2's files where programs look for them, and standard input, output and error.
/// Devices and pipes may be shared.
void check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& read,
                   bool force);

}  // namespace rowgrad
