#include <algorithm>
#include <cmath>

#include <rowgrad/core/io/file.hpp>
#include <rowgrad/examples/support/report.hpp>
#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/run_report.hpp>

namespace rowgrad {
namespace {

std::string text_of(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

RunFiles::RunFiles(const TrainProgram& options)
    : options_(options),
      checkpoint_(options.save),
      metrics_(options.metrics),
      json_(options.json),
      report_(options.report),
      report_data_(options.report_data) {}

void RunFiles::save(const Training& training) {
  for (const Parameter* parameter : training.model().parameters()) {
    const Tensor& values = parameter->value();
    check_runtime(
        std::all_of(values.begin(), values.end(), [](real x) { return std::isfinite(x); }),
        parameter->name(), " is not finite any more at step ", training.run.steps(),
        "; try a smaller --learning-rate");
  }
  if (!options_.save.empty()) checkpoint_.rewrite([&] { training.save(options_.save); });
}

void RunFiles::write(const Training& training) {
  save(training);
  if (!options_.metrics.empty())
    metrics_.rewrite([&] { write_file(options_.metrics, metrics_csv(training)); });
}

void RunFiles::write_run(const nlohmann::json& run) {
  if (!options_.json.empty()) json_.rewrite([&] { write_file(options_.json, text_of(run, 2)); });
}

void RunFiles::write_report(const nlohmann::json& report) {
  if (!options_.report.empty())
    report_.rewrite([&] { write_file(options_.report, report_page(report)); });
  if (!options_.report_data.empty())
    report_data_.rewrite([&] { write_file(options_.report_data, text_of(report, -1)); });
}

}  // namespace rowgrad
