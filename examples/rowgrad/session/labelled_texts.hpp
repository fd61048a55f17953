#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace rowgrad {

/// A text with its label.
struct LabelledText {
  std::string text;       // in UTF-8
  std::size_t label = 0;  // an index of LabelledTexts::labels
  std::string source;     // for messages: the file and, in tables, the line
};

/// The result of read_labelled_texts().
struct LabelledTexts {
  std::vector<LabelledText> texts;  // in the order of the source
  std::vector<std::string> labels;  // sorted
};

/// The names of a table's columns, as in its first row.
struct LabelledTextOptions {
  std::string text = "text";
  std::string label = "label";
};

/// Reads labelled texts from a folder or a table. In a folder, each subfolder is a label, and each
/// file in it is a text; both are sorted by name. A .csv table is separated by commas (RFC 4180), a
/// .tsv table by tabs, where quotes are ordinary characters. Skips byte order marks with a note on
/// standard error. Throws std::runtime_error, with file and line, if the source cannot be read or
/// an example lacks a text or a label, and std::invalid_argument if a file is not UTF-8.
LabelledTexts read_labelled_texts(const std::filesystem::path& path,
                                  const LabelledTextOptions& options = {});

}  // namespace rowgrad
