#include <iomanip>
#include <sstream>
#include <utility>

#include <rowgrad/examples/support/run_files.hpp>

namespace rowgrad {

RunFile::RunFile(std::string path, std::size_t every, std::function<void()> write)
    : path_(std::move(path)), every_(every), write_(std::move(write)), file_(path_) {}

void RunFile::between_steps(const TrainingRun& run) {
  if (has_stepped_ && every_ > 0 && run.steps() % every_ == 0) rewrite();
}

// A pipe gets nothing twice.
void RunFile::at_end(const TrainingRun&) {
  if (has_stepped_ || !has_written_) rewrite();
}

void RunFile::rewrite() {
  if (!path_.empty()) file_.rewrite(write_);
  has_written_ = true;
  has_stepped_ = false;
}

std::string metrics_csv(const TrainingRun& run) {
  std::ostringstream csv;
  csv << "epoch,steps,training_loss,validation_loss,tokens_per_second\n" << std::setprecision(9);
  for (const EpochRecord& record : run.history()) {
    csv << record.epoch << ',' << record.steps << ',' << record.training_loss << ',';
    if (record.validation_loss) csv << *record.validation_loss;
    csv << ',' << record.tokens_per_second << '\n';
  }
  return std::move(csv).str();
}

}  // namespace rowgrad
