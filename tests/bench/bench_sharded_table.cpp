// Measures a table that is sharded over ranks. Run it with mpirun:
//   mpirun -n 4 build/tests/bench/bench_sharded_table ROWS [FOLDER]
// Trains a table [ROWS, 64], in memory or in files in FOLDER, by SGD with momentum. Prints for each
// rank:
// - its memory and the size of its shard,
// - the bytes that it sends in a step, and the prediction n (P - 1) / P · (8 + 8 width) for n
//   distinct ids and P ranks: ids and rows before the step, ids and gradients after it,
// - the time of the fastest step.
//   mpirun -n 2 build/tests/bench/bench_sharded_table w5 [ROWS]
// Trains W5 with ROWS rows for each head of its memory, alternately with a whole and with a sharded
// table. Prints medians of times and of their ratios.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <set>

#include "tests/bench/measure.hpp"
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kWidth = 64;
constexpr std::size_t kSteps = 20;
constexpr std::size_t kLookups = 4096;  // lookups of a rank in a step

class Table : public Model {
 public:
  Table(TableFile& rows, TablePlacement& tables)
      : words(*this, "words", rows, EmbeddingOptions{.tables = &tables}) {}
  Table(std::size_t rows, Random& random, TablePlacement& tables)
      : words(*this, "words", rows, kWidth, random, EmbeddingOptions{.tables = &tables}) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const Variable rows = words.forward(tape, batch.inputs());
    return mean(rows * rows);
  }
  std::vector<TableLookup> lookups(const Batch& batch) const override {
    return {words.lookup_of(batch.inputs())};
  }

  Submodule<Embedding> words;
};

// Returns a value of /proc/self/status in kilobytes: VmRSS is the current memory, VmHWM the peak.
std::uint64_t memory(const std::string& what) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (std::uint64_t value = 0; word == what + ":" && file >> value) return value;
  return 0;
}

// Returns the seconds until all ranks have completed `work`.
double seconds_of(ProcessGroup& ranks, const std::function<void()>& work) {
  ranks.any(false);
  const auto start = std::chrono::steady_clock::now();
  work();
  ranks.any(false);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The workload W5 as a training run.
struct W5 {
  W5(ProcessGroup& ranks, std::size_t rows, bool sharded)
      : workload(bench::w5(rows)),
        tables(ranks),
        model(options(workload, sharded ? &tables : nullptr), random),
        optimizer(bench::make_optimizer(workload.optimizer, model.parameters())),
        loader(windows(workload), {.batch = workload.batch}),
        run({.model = model,
             .optimizer = *optimizer,
             .loader = loader,
             .random = random,
             .slices = ranks.size(),
             .ranks = &tables,
             .steps = 1000}) {}

  static GptOptions options(const bench::Workload& workload, TablePlacement* tables) {
    GptOptions options = bench::gpt_options(workload);
    options.memories.memory.tables = tables;
    return options;
  }
  static TokenWindows windows(const bench::Workload& workload) {
    Random random(1);
    Ids ids = Ids::from_shape({1000 * workload.tokens() + 1});
    for (std::int32_t& id : ids)
      id = static_cast<std::int32_t>(random.bits() % workload.vocabulary);
    return {ids, {.context = workload.context, .stride = workload.context}};
  }

  bench::Workload workload;
  Random random{123};
  ParallelTraining tables;
  GptModel model;
  std::unique_ptr<Optimizer> optimizer;
  DataLoader loader;
  TrainingRun run;
};

void compare_w5(ProcessGroup& ranks, std::size_t rows) {
  constexpr std::size_t kTurns = 15, kStepsPerTurn = 4;
  W5 whole(ranks, rows, false), sharded(ranks, rows, true);
  std::vector<double> whole_ms, sharded_ms, ratios;
  for (std::size_t turn = 0; turn <= kTurns; ++turn) {
    const std::size_t last = (turn + 1) * kStepsPerTurn;
    const double a = seconds_of(ranks, [&] { whole.run.train(last); }) / kStepsPerTurn;
    const double b = seconds_of(ranks, [&] { sharded.run.train(last); }) / kStepsPerTurn;
    if (turn == 0) continue;  // warm-up
    whole_ms.push_back(1e3 * a);
    sharded_ms.push_back(1e3 * b);
    ratios.push_back(b / a);
  }
  if (ranks.rank() == 0)
    std::cout << "W5 with " << 8 * rows << " rows on " << ranks.size() << " ranks: whole "
              << bench::median(whole_ms) << " ms per step, sharded " << bench::median(sharded_ms)
              << " ms, ratio " << bench::median(ratios) << '\n';
}

void measure(ProcessGroup& ranks, std::size_t rows, const std::string& folder) {
  const std::uint64_t before = memory("VmRSS");
  Random random(1);
  std::optional<TableFile> file;
  if (!folder.empty())
    file.emplace(concat(folder, "/table", ranks.rank()),
                 TableFileOptions{.rows = rows, .width = kWidth, .slots = 1, .init_std = 0.01});
  ParallelTraining tables(ranks);
  std::optional<Table> model;
  if (file)
    model.emplace(*file, tables);
  else
    model.emplace(rows, random, tables);
  SGD optimizer(model->parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  Ids text = Ids::from_shape({kSteps * kLookups * ranks.size() + 1});
  for (std::int32_t& id : text) id = static_cast<std::int32_t>(random.bits() % rows);
  DataLoader loader(TokenWindows(text, {.context = 64, .stride = 64}),
                    {.batch = kLookups / 64 * ranks.size()});
  TrainingRun run({.model = *model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .slices = ranks.size(),
                   .ranks = &tables,
                   .steps = kSteps});
  run.train(2);
  const std::uint64_t sent = ranks.bytes_sent();
  double seconds = 1e9;  // time of the fastest step
  for (std::size_t step = 3; step < kSteps; ++step)
    seconds = std::min(seconds, seconds_of(ranks, [&] { run.train(step); }));
  const double bytes_per_step = static_cast<double>(ranks.bytes_sent() - sent) / (kSteps - 3);
  const std::set<std::int32_t> distinct(text.begin(), text.begin() + kLookups);
  const auto size = static_cast<double>(ranks.size());
  const double formula =
      static_cast<double>(distinct.size()) * (size - 1) / size * (8 + 8 * kWidth);
  const double shard = static_cast<double>(rows * kWidth * sizeof(real)) / size / 1e6;
  const std::string line = concat(
      "rank ", ranks.rank(), " of ", ranks.size(), ": ",
      static_cast<double>(memory("VmHWM") - before) / 1e3, " MB for a shard with ", shard,
      " MB of values, and the momentum of touched rows; sends ", bytes_per_step,
      " bytes per step (formula: ", formula, "); ", 1e3 * seconds, " ms for the fastest step\n");
  for (const std::string& each : ranks.all_gather_lists(line))
    if (ranks.rank() == 0) std::cout << each;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  rowgrad::blas::prepare();  // before MPI starts threads
  const auto ranks = rowgrad::mpi_process_group();
  if (argc < 2) {
    std::cerr << "usage: bench_sharded_table ROWS [FOLDER] | bench_sharded_table w5 [ROWS]\n";
    return 2;
  }
  rowgrad::set_threads(1);
  if (argv[1] == std::string("w5")) {
    rowgrad::compare_w5(*ranks, argc > 2 ? std::stoul(argv[2]) : 1'000'000);
    return 0;
  }
  rowgrad::measure(*ranks, std::stoul(argv[1]), argc > 2 ? argv[2] : "");
  return 0;
}
