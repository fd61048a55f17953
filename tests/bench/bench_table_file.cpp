// Measures steps on tables in a file and in memory: 4,096 lookups of width 64, and SGD with
// momentum and weight decay.
//   TMPDIR=FOLDER build/tests/bench/bench_table_file
// - "new" rows have never changed before.
// - "warm" rows are in memory.
// - "checkpointed" rows are in memory, but change for the first time after a checkpoint.
// - "cold" rows also change for the first time after a checkpoint, and are only on disk.
//
// Then measures steps of W5's GPT with an n-gram memory in a file of 100 million rows. Half of the
// rows that are looked up are only on disk ("half cold"). For "prefetched", each step first
// prefetches the rows of the next batch.

#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/measure.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 64;
constexpr std::size_t kLookups = 4096;
constexpr std::size_t kSets = bench::kBatches;  // sets of lookups, repeated for warm rows

// Returns the median time of `step` over all sets, in milliseconds.
double median_ms(const std::function<void(std::size_t set)>& step) {
  std::size_t set = 0;
  const bench::Pace pace{.warm_up = 0, .repeats = kSets};
  return 1e3 * bench::time_runs([&] { step(set++); }, pace).median_seconds;
}

// A table and its optimizer.
struct Trained {
  explicit Trained(auto&&... rows) : table(std::forward<decltype(rows)>(rows)...) {}

  // Measures steps that look up random rows of the table, some of them twice.
  double step_ms() {
    return median_ms([&](std::size_t set) {
      Ids ids = Ids::from_shape({kLookups});
      for (std::size_t i = 0; i < kLookups; ++i)
        ids[i] =
            static_cast<std::int32_t>(splitmix64(set * kLookups + i) % table.weight.shape()[0]);
      sgd.zero_grad();
      Tape tape;
      tape.backward(sum(table.forward(tape, ids)));
      sgd.step();
    });
  }

  Embedding table;
  SGD sgd{{&table.weight}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4}};
};

void print_size(const fs::path& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  std::printf("%.1f GB, %.1f MB used; ms per step: ", static_cast<double>(status.st_size) / 1e9,
              512 * static_cast<double>(status.st_blocks) / 1e6);
}

void drop_pages(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

void run_in_file(std::size_t rows) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder / "table";
  double fresh, checkpointed, warm;
  StateDict model, optimizer;
  {
    TableFile file(path, {.rows = rows, .width = kWidth, .slots = 1});
    Trained trained(file);
    fresh = trained.step_ms();
    file.checkpoint();
    checkpointed = trained.step_ms();
    warm = trained.step_ms();
    file.checkpoint();
    model = trained.table.state_dict();
    optimizer = trained.sgd.state_dict();
  }
  drop_pages(path);
  TableFile file(path);
  Trained trained(file);
  trained.table.load_state_dict(model);
  trained.sgd.load_state_dict(optimizer);
  const double cold = trained.step_ms();
  std::printf("%zu rows in ", rows);
  print_size(path);
  std::printf("new %.2f, cold %.2f, checkpointed %.2f, warm %.2f\n", fresh, cold, checkpointed,
              warm);
}

void run_in_memory(std::size_t rows) {
  Random random(1);
  Trained trained(rows, kWidth, random);
  trained.step_ms();
  std::printf("%zu rows in memory; ms per step: warm %.2f\n", rows, trained.step_ms());
}

void run_gpt(std::size_t rows_per_head) {
  const bench::Workload workload = bench::w5(rows_per_head);
  GptOptions gpt = bench::gpt_options(workload);
  const testing::TemporaryFolder folder;
  TableFile file(folder / "table",
                 {.rows = NgramHash(gpt.vocabulary, gpt.memories.ngrams, {1}, 1).table_rows(),
                  .width = gpt.memories.memory.head_width,
                  .slots = 2});
  gpt.memories.files = {&file};
  Random random(1);
  GptModel model(gpt, random);
  const auto adamw = bench::make_optimizer(workload.optimizer, model.parameters());
  const std::vector<Ids> batches = bench::random_batches(workload, 2);
  const auto step_ms = [&](bool prefetches) {
    return median_ms([&](std::size_t i) {
      if (prefetches && i + 1 < kSets)
        for (const TableLookup& lookup : model.lookups({.ids = {batches[i + 1], {}}}))
          lookup.table->prefetch(lookup.ids);
      adamw->zero_grad();
      Tape tape;
      tape.backward(model.loss(tape, batches[i], batches[(i + 1) % kSets]));
      adamw->step();
    });
  };
  const auto half_cold_step_ms = [&](bool prefetches) {
    const RecordWriter all = file.modify({});
    const auto page = reinterpret_cast<std::uintptr_t>(all.first_note()) / 4096 * 4096;
    ::madvise(reinterpret_cast<void*>(page), file.rows() * all.stride(), MADV_DONTNEED);
    drop_pages(file.path());
    for (const Ids& batch : batches) {
      const Ids rows = model.memories[0].hash().rows(batch);
      file.fault_in(std::span(rows.storage()).first(rows.size() / 2));
    }
    return step_ms(prefetches);
  };
  step_ms(false);
  file.checkpoint();
  step_ms(false);  // copies rows to the undo file
  const double cold = half_cold_step_ms(false), prefetched = half_cold_step_ms(true);
  std::printf("A GPT with %zu rows in ", file.rows());
  print_size(file.path());
  std::printf("half cold %.1f, prefetched %.1f\n", cold, prefetched);
}

}  // namespace

int main() {
  for (const std::size_t rows : {1'000'000U, 100'000'000U}) run_in_file(rows);
  run_in_memory(1'000'000);
  run_gpt(12'500'000);
}
