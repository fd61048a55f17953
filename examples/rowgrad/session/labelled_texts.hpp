#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace rowgrad {

/// One text of a set.
struct LabelledText {
  std::string text;       // in UTF-8
  std::size_t label = 0;  // an index of LabelledTexts::labels
  std::string source;     // for messages: the file, and the line in a table
};

/// What read_labelled_texts() found.
struct LabelledTexts {
  std::vector<LabelledText> texts;  // in the order of the source
  std::vector<std::string> labels;  // sorted
};

/// Columns of a table, by their names in its first row.
struct LabelledTextOptions {
  std::string text = "text";
  std::string label = "label";
};

/// Reads labelled texts: from a folder, of which each folder in it is a label and each file in that
/// a text, in the order of their names; or from a table, with commas as in RFC 4180 if its name
/// ends with .csv, and if with .tsv, with tabs, between which quotes mean nothing. A byte order
/// mark is skipped, and standard error says so. Throws std::runtime_error for what cannot be read,
/// and for an example without a text or a label, with the number of the line, and
/// std::invalid_argument for a byte that is not UTF-8, with the file.
LabelledTexts read_labelled_texts(const std::filesystem::path& path,
                                  const LabelledTextOptions& options = {});

}  // namespace rowgrad
