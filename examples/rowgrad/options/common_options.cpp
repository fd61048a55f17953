#include <rowgrad/examples/rowgrad/options/common_options.hpp>

namespace rowgrad {

OptionTable option_table_of(ReportFiles& files) {
  return {{"--report", &files.page, "HTML page that shows the run, updated as the run goes on",
           file_name() + common()},
          {"--report-data", &files.data, "JSON file of the data that the page shows", file_name()},
          {"--log", &files.log, "log of the run, for `rowgrad report`", file_name()}};
}

Option force_option(bool& force) {
  return {"--force", &force, "replace files even if they were written for another purpose"};
}

Option past_context_option(PastContext& past_context, OptionRules rules) {
  return {"--past-context",
          choice(past_context,
                 {{"recompute", PastContext::kRecompute}, {"slide", PastContext::kSlidingWindow}}),
          "read the last tokens again for each token past the context, or keep their keys and "
          "values, which is fast, gives other texts, and needs relative positions",
          std::move(rules)};
}

}  // namespace rowgrad
