#pragma once

// What Raschka's "Build a Large Language Model (From Scratch)" prints of its runs, to be shown
// beside those of the programs.

#include <cstddef>
#include <string>
#include <vector>

#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

struct BookLine {
  double training, validation;
};

struct BookLog {
  std::vector<BookLine> losses = {};      // of evaluations after the first step
  std::size_t every = 5;                  // and every so many steps
  std::vector<BookLine> accuracies = {};  // after epochs, in percent
  // Of training, validation and test: accuracies and losses before, accuracies at the end.
  std::vector<double> before = {};
  std::vector<double> losses_before = {};
  std::vector<double> after = {};
};

/// Of chapters "5" and "6" and appendices "d" and "e". The printed book clips appendix D's
/// gradients from step 28 on, its corrected notebook from step 27 on; with another clip_from, there
/// are the lines before. Of appendix E, the first lines.
BookLog book_log(const std::string& run, std::size_t clip_from = 27);

/// "   the book's  4.617  6.714", of the line that the book has after so many `steps`, the first
/// after one; "" where it has none.
std::string beside(const std::vector<BookLine>& lines, std::size_t steps, std::size_t every,
                   int digits);

/// How many losses of evaluations in the course of epochs round to those of the book, and how far
/// the others are off, in a sentence.
std::string compared(const std::vector<TrainingRecord>& history, const BookLog& book);

}  // namespace rowgrad
