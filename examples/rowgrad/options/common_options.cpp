#include <rowgrad/examples/rowgrad/options/common_options.hpp>

namespace rowgrad {

OptionTable option_table_of(ReportFiles& files) {
  return {
      {"--report", &files.page, "write an HTML page about the run, updated during training",
       file_name() + common()},
      {"--report-data", &files.data, "write the data of the page to this JSON file", file_name()},
      {"--log", &files.log,
       "write a log for `rowgrad report` to this file; --report FILE writes FILE.log by default",
       file_name()}};
}

Option force_option(bool& force) {
  return {"--force", &force,
          "overwrite files even if they are not earlier output of the same kind"};
}

Option past_context_option(PastContext& past_context, OptionRules rules) {
  return {"--past-context",
          choice(past_context,
                 {{"recompute", PastContext::kRecompute}, {"slide", PastContext::kSlidingWindow}}),
          "how to generate beyond the context: slide keeps the keys and values of the last tokens, "
          "which is faster than recomputing them, but changes the text and requires relative "
          "positions",
          std::move(rules)};
}

}  // namespace rowgrad
