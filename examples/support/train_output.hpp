#pragma once

// What the training programs print.

#include <cstddef>
#include <string>

#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {

/// "1.826 nats (2.63 bits)"
std::string bits(double nats);

/// Text, tokens, batches and model, before training.
void print_start(const Training& training, const Corpus& corpus);

/// The last epoch, whose number takes `width` characters.
void print_epoch(const Training& training, std::size_t width);

void print_evaluation(const std::string& where, const Evaluation& evaluation, int digits);

/// Where a run is. Steps are numbered from 0: this is the last one.
std::string place(const Training& training);

std::string progress_line(const Training& training, double loss, std::size_t max_steps);

/// How gradients went between ranks in the last `steps` steps.
void print_exchange(const Training& training, const ProcessGroup& ranks, std::size_t steps);

}  // namespace rowgrad
