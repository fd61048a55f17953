// What a rank has and sends of a table that is split over ranks, to be started by mpirun:
//   mpirun -n 4 build/tests/bench/bench_split_table ROWS [FOLDER]
// Steps of SGD with momentum in a table ROWS x 64, in memory or in files in FOLDER. Prints, for
// each rank, its memory beside that of its share, and the bytes that it sends in a step beside
// n (P - 1) / P · (8 + 8 width), for n distinct ids and P ranks: ids and rows before the step, ids
// and gradients after it.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/core/parallel/split_rows.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/optim/sgd.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kWidth = 64;
constexpr std::size_t kSteps = 20;
constexpr std::size_t kLookups = 4096;  // of a rank in a step

class Table : public Model {
 public:
  Table(TableFile& rows, ProcessGroup& ranks)
      : words(*this, "words", rows, EmbeddingOptions{.split = &ranks}) {}
  Table(std::size_t rows, Random& random, ProcessGroup& ranks)
      : words(*this, "words", rows, kWidth, random, EmbeddingOptions{.split = &ranks}) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const Variable rows = words.forward(tape, batch.inputs());
    return mean(rows * rows);
  }
  void read_ahead(const Batch& batch) override { words.read_ahead(batch.inputs()); }

  Part<Embedding> words;
};

// In kilobytes, as the system counts it: VmHWM, the most memory so far.
std::uint64_t memory(const std::string& what) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (std::uint64_t value = 0; word == what + ":" && file >> value) return value;
  return 0;
}

void measure(ProcessGroup& ranks, std::size_t rows, const std::string& folder) {
  const std::uint64_t before = memory("VmRSS");
  Random random(1);
  std::optional<TableFile> file;
  if (!folder.empty())
    file.emplace(concat(folder, "/table", ranks.rank()),
                 TableFileOptions{.rows = rows, .width = kWidth, .states = 1, .deviation = 0.01});
  std::optional<Table> model;
  if (file)
    model.emplace(*file, ranks);
  else
    model.emplace(rows, random, ranks);
  SGD optimizer(model->parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  Ids text = Ids::from_shape({kSteps * kLookups * ranks.size() + 1});
  for (std::int32_t& id : text) id = static_cast<std::int32_t>(random.bits() % rows);
  DataLoader loader(TokenWindows(text, {.context = 64, .stride = 64}),
                    {.batch = kLookups / 64 * ranks.size()});
  TrainingRun run({.model = *model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .shards = ranks.size(),
                   .ranks = &ranks,
                   .steps = kSteps});
  run.train(2);
  const std::uint64_t sent = ranks.bytes_sent();
  run.train(kSteps - 1);
  const double a_step = static_cast<double>(ranks.bytes_sent() - sent) / (kSteps - 3);
  const std::set<std::int32_t> distinct(text.begin(), text.begin() + kLookups);
  const auto size = static_cast<double>(ranks.size());
  const double formula =
      static_cast<double>(distinct.size()) * (size - 1) / size * (8 + 8 * kWidth);
  const double share = static_cast<double>(rows * kWidth * sizeof(real)) / size / 1e6;
  const std::string line =
      concat("rank ", ranks.rank(), " of ", ranks.size(), ": ",
             static_cast<double>(memory("VmHWM") - before) / 1e3, " MB for a share of ", share,
             " MB of values and as many of momentum where rows were touched; sends ", a_step,
             " bytes a step, by the formula ", formula, "\n");
  for (const std::string& each : ranks.gather_lists(line))
    if (ranks.rank() == 0) std::cout << each;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  const auto ranks = rowgrad::mpi_process_group();
  if (argc < 2) {
    std::cerr << "usage: bench_split_table ROWS [FOLDER]\n";
    return 2;
  }
  rowgrad::measure(*ranks, std::stoul(argv[1]), argc > 2 ? argv[2] : "");
  return 0;
}
