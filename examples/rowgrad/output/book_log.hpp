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

/// Losses of evaluations after the first step, and every five steps.
using BookLog = std::vector<BookLine>;

/// Of chapter "5" or appendix "d". The printed book clips appendix D's gradients from step 28 on,
/// its corrected notebook from step 27 on; with another clip_from, there are the lines before.
BookLog book_log(const std::string& run, std::size_t clip_from = 27);

/// "   the book's  4.617  6.714", of the line that the book has after so many `steps`, the first
/// after one; "" where it has none.
std::string beside(const BookLog& book, std::size_t steps);

/// How many losses of evaluations in the course of epochs round to those of the book, and how far
/// the others are off, in a sentence.
std::string compared(const std::vector<TrainingRecord>& history, const BookLog& book);

}  // namespace rowgrad
