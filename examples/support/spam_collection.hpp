#pragma once

// The SMS Spam Collection (Almeida and Gómez Hidalgo 2011), short messages of two kinds, split as
// in section 6.2 of Raschka's "Build a Large Language Model (From Scratch)".

#include <filesystem>
#include <vector>

#include <rowgrad/core/data/examples.hpp>
#include <rowgrad/examples/support/data_files.hpp>

namespace rowgrad {

/// The file in the archive at its address.
extern const PublishedFile kSpamCollection;

struct SpamCollection {
  // Label 0 is ham, 1 is spam, as many of each; of the ham, only so much is taken.
  std::vector<LabelledText> training, validation, test;
};

/// Reads the file as pandas does, and draws as its DataFrame.sample(random_state=123) does: the
/// same messages in the same order as in the tables that the book makes. Throws std::runtime_error
/// if there is no file, saying what to download; if it has the published size but another SHA-256;
/// and if it has no lines of a label, a tab and a text, or not more ham than spam.
SpamCollection read_spam_collection(const std::filesystem::path& path);

}  // namespace rowgrad
