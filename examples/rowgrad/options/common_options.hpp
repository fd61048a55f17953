#pragma once

// Options that several programs have.

#include <string>

#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {

/// Files of a report; "" for those that are not written.
struct ReportFiles {
  std::string page = {};  // HTML
  std::string data = {};  // JSON
  std::string log = {};   // by default, the name of one of the others and .log
};
OptionTable option_table_of(ReportFiles& files);

/// Returns the option --force, whose value check_outputs() takes.
Option force_option(bool& force);

/// Returns the option --past-context of programs that generate text.
Option past_context_option(PastContext& past_context, OptionRules rules = {});

}  // namespace rowgrad
