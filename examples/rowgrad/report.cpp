// Makes a page of the log of a training run.

#include <iostream>

#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/report/report_data.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {

int report_command(int argc, const char* const* argv) {
  std::string log, page, data;
  bool force = false;
  CommandLine line(
      "rowgrad report", "Makes a page of the log of a training run, even while it still goes on.",
      {{"FILE", &log, "log, as train --report and RunLog write it", file_name() + required()},
       {"--output", &page,
        "page that shows the run: HTML file; run.html for run.log and run.html.log if not given",
        file_name()},
       {"--data", &data, "JSON file of what the page shows, instead of a page", file_name()},
       force_option(force)});
  line.parse(argc, argv);
  if (page.empty() && data.empty()) {
    const std::filesystem::path name = std::filesystem::path(log).replace_extension();
    page = name.extension() == ".html" ? name.string() : name.string() + ".html";
  }
  check_outputs({{"--output", page, kReportPage}, {"--data", data, kReportData}}, {log}, force);
  write_report(log, page, data);
  if (!page.empty()) std::cout << "Report in  " << page << '\n';
  return 0;
}

}  // namespace rowgrad
