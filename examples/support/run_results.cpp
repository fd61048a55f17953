#include <iomanip>
#include <sstream>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/run_results.hpp>

namespace rowgrad {

std::string metrics_csv(const Training& training) {
  std::ostringstream csv;
  csv << "epoch,steps,training_loss,validation_loss,tokens_per_second\n" << std::setprecision(9);
  for (const EpochRecord& record : training.run.history()) {
    csv << record.epoch << ',' << record.steps << ',' << record.training_loss << ',';
    if (record.validation_loss) csv << *record.validation_loss;
    csv << ',' << record.tokens_per_second << '\n';
  }
  return std::move(csv).str();
}

nlohmann::json run_json(const Training& training) {
  nlohmann::json history = nlohmann::json::array();
  for (const EpochRecord& record : training.run.history()) history.push_back(to_json(record));
  nlohmann::json evaluations = nlohmann::json::array();
  for (const Evaluation& evaluation : training.evaluations())
    evaluations.push_back(to_json(evaluation));
  const TokenSequence* validation = training.validation_ids();
  return {{"options", training.options()},
          {"vocabulary_size", training.tokenizer().size()},
          {"training_tokens", training.training_ids().size()},
          {"validation_tokens", validation == nullptr ? 0 : validation->size()},
          {"parameters", training.model().parameter_count()},
          {"blas", blas::describe()},
          {"history", history},
          {"evaluations", evaluations},
          {"samples", training.samples()}};
}

}  // namespace rowgrad
