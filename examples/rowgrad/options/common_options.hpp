#pragma once

// Options shared by several programs.

#include <string>

#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/layers/language_model.hpp>

namespace rowgrad {

/// The files of a report; "" for none.
struct ReportFiles {
  std::string page = {};  // HTML
  std::string data = {};  // JSON
  std::string log = {};   // default: page (or else data) + ".log"
};
OptionTable option_table_of(ReportFiles& files);

/// Returns the option --force, for check_outputs().
Option force_option(bool& force);

/// Returns the option --past-context, for programs that generate text.
Option past_context_option(PastContext& past_context, OptionRules rules = {});

}  // namespace rowgrad
