// Makes a web page from the log of a training run.

#include <iostream>

#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/report/report_data.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {

int report_command(int argc, const char* const* argv) {
  std::string log, page, data;
  bool force = false;
  CommandLine line(
      "rowgrad report",
      "Make a web page from the log of a training run, which may still be running.",
      {{"LOG", &log, "log written by train --log, or FILE.log written by train --report FILE",
        file_name("LOG") + required()},
       {"--output", &page,
        "write the page to this HTML file (default: run.html for run.log and run.html.log)",
        file_name()},
       {"--data", &data, "write the data of the page to this JSON file", file_name()},
       force_option(force)});
  line.parse(argc, argv);
  if (page.empty() && data.empty()) {
    const std::filesystem::path name = std::filesystem::path(log).replace_extension();
    page = name.extension() == ".html" ? name.string() : name.string() + ".html";
  }
  check_outputs({{"--output", page, kReportPage}, {"--data", data, kReportData}}, {log}, force);
  write_report(log, page, data);
  if (!page.empty()) std::cout << "Report in  " << page << '\n';
  if (!data.empty()) std::cout << "Data in    " << data << '\n';
  return 0;
}

}  // namespace rowgrad
