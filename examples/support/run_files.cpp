#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/run_results.hpp>

namespace rowgrad {

RunFiles::RunFiles(const TrainProgram& options)
    : options_(options),
      checkpoint_(options.save),
      metrics_(options.metrics),
      json_(options.json) {}

void RunFiles::save(const Training& training) {
  if (!options_.save.empty()) checkpoint_.rewrite([&] { training.save(options_.save); });
}

void RunFiles::write(const Training& training) {
  save(training);
  if (!options_.metrics.empty())
    metrics_.rewrite([&] { write_file(options_.metrics, metrics_csv(training)); });
}

void RunFiles::write_run(const nlohmann::json& run) {
  using nlohmann::json;
  if (!options_.json.empty())
    json_.rewrite([&] {
      write_file(options_.json, run.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
    });
}

}  // namespace rowgrad
