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
  std::string source;     // for messages: the file, and the line in a table
};

/// The result of read_labelled_texts().
struct LabelledTexts {
  std::vector<LabelledText> texts;  // in the order of the source
  std::vector<std::string> labels;  // sorted
};

/// The names of a table's columns, which stand in its first row.
struct LabelledTextOptions {
  std::string text = "text";
  std::string label = "label";
};

/// Reads labelled texts from a folder or a table. In a folder, each folder is a label, and each
/// file in that folder is a text; both are sorted by name. A table has commas (RFC 4180) if its
/// name ends with .csv, and tabs, between which quotes are ordinary characters, if it ends with
/// .tsv. A byte order mark is skipped with a note on standard error. Throws std::runtime_error,
/// with file and line, for what cannot be read and for an example without a text or a label, and
/// std::invalid_argument, with the file, for a byte that is not UTF-8.
LabelledTexts read_labelled_texts(const std::filesystem::path& path,
                                  const LabelledTextOptions& options = {});

}  // namespace rowgrad
