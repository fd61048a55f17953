// Makes a page of the log of a training run.

#include <iostream>

#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/report/report_data.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("report", [&] {
    std::string log, page, data;
    bool force = false;
    CommandLine line(
        "Makes a page of the log of a training run, even while it still goes on.",
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
  });
}
