#pragma once

// The files that programs write. One rule holds for all of them: a file is replaced if it is empty
// or if an earlier start of a program wrote it for the same purpose, which the file itself tells.
// Any other file is replaced only with --force.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/common_options.hpp>

namespace rowgrad {

/// The purpose of an output.
struct OutputKind {
  const char* name;  // "a run", for messages
  /// Returns true if the file was written for this purpose. May throw if it was not.
  std::function<bool(const std::filesystem::path& file)> is_in;
};

extern const OutputKind kRunFile;         // train --save
extern const OutputKind kRunJson;         // train --json
extern const OutputKind kLossesCsv;       // train --metrics
extern const OutputKind kRowList;         // train --row-list
extern const OutputKind kGpt2Weights;     // train --gpt2-export
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
extern const OutputKind kCheckedLater;    // the caller decides what may be replaced

struct Output {
  std::string option;  // "--json"
  std::string path;    // "" if the option is not given
  OutputKind kind;
};

/// Checks, before any work, that all `outputs` can be written after it: their folders exist, a
/// temporary file can be made next to each, and none is a folder. Refuses a file of another kind
/// unless `force` is true. Also refuses, with `force` too, files that are read or written
/// elsewhere, under whatever path: `read`, files in folders of labelled texts, The Verdict and
/// GPT-2's files where programs look for them, each other, and standard input, output and error.
/// Devices and pipes may be shared. Throws std::runtime_error.
void check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& read,
                   bool force);

}  // namespace rowgrad
