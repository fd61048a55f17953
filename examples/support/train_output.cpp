#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/train_output.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMostInTable = 24;  // tensors of a model

std::string describe_updates(const TrainOptions& options) {
  std::ostringstream text;
  text << options.optimizer << ", learning rate " << options.learning_rate;
  if (options.schedule != "constant") text << " (" << options.schedule << " schedule)";
  if (options.warmup > 0) text << ", " << options.warmup << " steps of warm-up";
  if (options.accumulate > 1) text << ", " << options.accumulate << " batches a step";
  if (options.momentum != 0) text << ", momentum " << options.momentum;
  if (options.weight_decay != 0)
    text << ", weight decay " << options.weight_decay
         << (options.decay == "matrices" ? " of matrices" : "");
  if (options.clip > 0) text << ", gradients clipped at norm " << options.clip;
  if (options.tie) text << "; the head is tied to the token table";
  return text.str();
}

bool runs_out(const Training& training) {
  return training.options().tokenizer == "bpe" &&
         training.tokenizer().size() < training.options().vocabulary;
}

}  // namespace

std::string bits(double nats) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << nats << " nats (" << std::setprecision(2)
       << nats / std::log(2.0) << " bits)";
  return text.str();
}

void print_start(const Training& training, const Corpus& corpus) {
  const TokenSequence* validation = training.validation_ids();
  std::cout << "Text       " << corpus.source() << ", " << corpus.bytes() << " bytes"
            << (!corpus.has_checksums() ? "\n"
                : corpus.is_verified()  ? ", verified\n"
                                        : ", not verified; tokenize --verify does that\n")
            << "Tokens     " << training.options().tokenizer << ", " << training.tokenizer().size()
            << (runs_out(training) ? " ids, for the text has no more pairs; " : " ids; ")
            << training.training_ids().size() << " tokens to train on, "
            << (validation == nullptr ? 0 : validation->size()) << " for validation\n"
            << "Batches    " << training.batches_per_epoch() << " an epoch, each of "
            << training.options().batch << " windows of " << training.options().context
            << " tokens, stride " << training.options().stride << '\n'
            << "Computing  " << blas::describe() << '\n';
  std::cout << "Training   " << describe_updates(training.options()) << '\n';
  const std::size_t tensors = training.model().parameters().size();
  if (tensors <= kMostInTable) {
    std::cout << '\n' << training.model().summary();
  } else {
    std::cout << "Model      " << training.model().parameter_count() << " parameters in " << tensors
              << " tensors\n";
  }
  std::cout << '\n';
}

void print_epoch(const Training& training, std::size_t width) {
  const EpochRecord& record = training.run.history().back();
  std::cout << "epoch " << std::setw(static_cast<int>(width)) << record.epoch << '/'
            << training.options().epochs << std::fixed << std::setprecision(4) << "  training loss "
            << record.training_loss;
  if (record.validation_loss) std::cout << "  validation loss " << *record.validation_loss;
  std::cout << "  " << readable_count(record.tokens_per_second) << " tokens/s" << std::endl;
}

std::string place(const Training& training) {
  const std::size_t step = std::max<std::size_t>(training.run.steps(), 1) - 1;
  std::ostringstream text;
  const TrainOptions& options = training.options();
  if (options.steps == 0)
    text << "epoch " << step / training.run.steps_per_epoch() + 1 << '/' << options.epochs << "  ";
  text << "step " << std::setw(4) << step;
  if (options.steps > 0) text << '/' << options.steps;
  return text.str();
}

void print_evaluation(const std::string& where, const Evaluation& evaluation, int digits) {
  std::cout << where << std::fixed << std::setprecision(digits) << "  training loss "
            << evaluation.training_loss;
  if (evaluation.validation_loss) std::cout << "  validation loss " << *evaluation.validation_loss;
  std::cout << std::endl;
}

std::string progress_line(const Training& training, double loss, std::size_t max_steps) {
  std::ostringstream line;
  const double rate = training.run.tokens_per_second();
  line << place(training) << "  loss " << std::fixed << std::setprecision(4) << loss << "  "
       << readable_count(rate) << " tokens/s  "
       << readable_seconds(static_cast<double>(training.tokens_left(max_steps)) / rate) << " left";
  return line.str();
}

void print_exchange(const Training& training, const ProcessGroup& ranks, std::size_t steps) {
  std::cout << "Exchanged  "
            << readable_count(static_cast<double>(ranks.bytes_sent()) /
                              static_cast<double>(std::max<std::size_t>(steps, 1)))
            << "B a step sent by each of " << ranks.size() << " ranks";
  const std::vector<Parameter*> parameters = training.model().parameters();
  const auto& ways = training.run.exchange().ways();
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i] == "gathered" || ways[i] == "owners")
      std::cout << "; rows of " << parameters[i]->name()
                << (ways[i] == "owners" ? " by owners" : " gathered");
  std::cout << '\n';
}

}  // namespace rowgrad
