// Steps on tables of more and more rows, in a file and in memory: 4,096 lookups of width 64, and
// SGD with momentum and decay.
//   build/tests/bench/bench_table_file FOLDER [ROWS]...
// "new" rows never changed before. "warm" ones are in memory, and "marked" ones too, but they
// change for the first time after a checkpoint. "cold" ones are both, and on the disk only: the
// table was closed, and its pages were dropped. Limit the memory to see that nothing needs the
// whole:
//   systemd-run --scope -p MemoryMax=1G …, or a cgroup by hand
//
//   build/tests/bench/bench_table_file FOLDER --memory [ROWS]
// measures steps of W5's GPT instead, whose memory of n-grams is in a file with 8 · ROWS rows:
// "half cold" steps look up rows of which half are on the disk only, and with "read ahead", those
// of the next batch are asked for before each step.

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/optim/sgd.hpp>

using namespace rowgrad;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 64;
constexpr std::size_t kLookups = 4096;
constexpr std::size_t kSets = bench::kBatches;  // of lookups, which are repeated to be warm

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The median over all sets.
double median_ms(const std::function<void(std::size_t set)>& step) {
  std::vector<double> times;
  for (std::size_t set = 0; set < kSets; ++set) times.push_back(milliseconds([&] { step(set); }));
  return bench::median(times);
}

// A table that is trained.
struct Trained {
  explicit Trained(auto&&... rows) : table(std::forward<decltype(rows)>(rows)...) {}

  // A set of lookups is anywhere in the table, some of them twice.
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

double megabytes_on_disk(const fs::path& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  return 512.0 * static_cast<double>(status.st_blocks) / 1e6;
}

void drop_pages(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

void remove_table(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path.parent_path()))
    if (entry.path().filename().string().starts_with(path.filename().string()))
      fs::remove(entry.path());
}

long resident_mb() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

void run_in_file(const fs::path& folder, std::size_t rows) {
  const fs::path path = folder / concat("bench-", rows, ".table");
  double fresh, marked, warm, cold, checkpoint;
  Checkpoint model, optimizer;
  {
    TableFile file(path, {.rows = rows, .width = kWidth, .states = 1});
    Trained trained(file);
    fresh = trained.step_ms();
    checkpoint = milliseconds([&] { file.checkpoint(); });
    marked = trained.step_ms();
    warm = trained.step_ms();
    file.checkpoint();
    model = trained.table.state_dict();
    optimizer = trained.sgd.state_dict();
  }
  drop_pages(path);
  {
    TableFile file(path);
    Trained trained(file);
    trained.table.load_state_dict(model);
    trained.sgd.load_state_dict(optimizer);
    cold = trained.step_ms();
  }
  std::cout << std::setw(11) << rows;
  const double gigabytes = static_cast<double>(fs::file_size(path)) / 1e9;
  for (const double figure :
       {gigabytes, megabytes_on_disk(path), fresh, cold, marked, warm, checkpoint})
    std::cout << std::setw(12) << figure;
  std::cout << std::setw(12) << resident_mb() << std::endl;
  remove_table(path);
}

void run_in_memory(std::size_t rows) {
  Random random(1);
  Trained trained(rows, kWidth, random);
  const double fresh = trained.step_ms();
  trained.step_ms();
  std::cout << std::setw(11) << rows << "  in memory             " << std::setw(12) << fresh
            << std::setw(36) << trained.step_ms() << std::endl;
}

// W5 with its table in a file.
class GptInFile {
 public:
  GptInFile(const fs::path& path, std::size_t rows)
      : workload_(bench::w5(rows)), file_(path, table(workload_)), model_(options(), random_) {}

  double step_ms(bool reads_ahead) {
    return median_ms([&](std::size_t i) {
      if (reads_ahead && i + 1 < kSets) model_.read_ahead({.ids = {batches_[i + 1], {}}});
      adamw_->zero_grad();
      Tape tape;
      tape.backward(model_.loss(tape, batches_[i], batches_[(i + 1) % kSets]));
      adamw_->step();
    });
  }

  // With half of each batch's rows on the disk alone.
  double half_cold_step_ms(bool reads_ahead) {
    const auto page = reinterpret_cast<std::uintptr_t>(file_.row(0)) / 4096 * 4096;
    ::madvise(reinterpret_cast<void*>(page), file_.rows() * file_.stride_bytes(), MADV_DONTNEED);
    drop_pages(file_.path());
    for (const Ids& batch : batches_) {
      const Ids rows = model_.memories[0].hash().rows(batch);
      file_.bring_in(std::span(rows.storage()).first(rows.size() / 2));
    }
    return step_ms(reads_ahead);
  }

  void checkpoint() { file_.checkpoint(); }

 private:
  static TableFileOptions table(const bench::Workload& workload) {
    const GptOptions gpt = bench::gpt_options(workload);
    return {.rows = NgramHash(gpt.vocabulary, gpt.memories.ngrams, {1}, 1).table_rows(),
            .width = gpt.memories.memory.head_width,
            .states = 2};
  }
  GptOptions options() {
    GptOptions gpt = bench::gpt_options(workload_);
    gpt.memories.files = {&file_};
    return gpt;
  }

  bench::Workload workload_;
  Random random_{1};
  TableFile file_;
  GptModel model_;
  std::unique_ptr<Optimizer> adamw_ =
      bench::make_optimizer(workload_.optimizer, model_.parameters());
  std::vector<Ids> batches_ = bench::random_batches(workload_, 2);
};

void run_memory(const fs::path& folder, std::size_t rows) {
  const fs::path path = folder / "bench-memory.table";
  GptInFile gpt(path, rows);
  const double fresh = gpt.step_ms(false);
  gpt.checkpoint();
  const double marked = gpt.step_ms(false);
  const double warm = gpt.step_ms(true);
  const double cold = gpt.half_cold_step_ms(false);
  const double ahead = gpt.half_cold_step_ms(true);
  std::cout << "8 x " << rows << " rows, " << static_cast<double>(fs::file_size(path)) / 1e9
            << " GB, " << megabytes_on_disk(path) << " MB used; ms a step: new " << fresh
            << ", marked " << marked << ", warm " << warm << ", half cold " << cold
            << ", read ahead " << ahead << "; peak " << resident_mb() << " MB" << std::endl;
  remove_table(path);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool memory = arguments.size() > 1 && arguments[1] == "--memory";
  std::vector<std::size_t> sizes;
  for (std::size_t i = memory ? 2 : 1; i < arguments.size(); ++i)
    sizes.push_back(std::strtoull(arguments[i].c_str(), nullptr, 10));
  if (arguments.empty() || std::ranges::count(sizes, 0U) > 0) {
    std::cerr << "usage: bench_table_file FOLDER [--memory] [ROWS]...\n";
    return 2;
  }
  std::cout << std::fixed << std::setprecision(2);
  if (memory) {
    run_memory(arguments[0], sizes.empty() ? 12'500'000 : sizes.front());
    return 0;
  }
  if (sizes.empty()) sizes = {1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  std::cout << "       rows     file GB     used MB      new ms     cold ms   marked ms     warm ms"
               "  checkpoint     peak MB\n";
  for (const std::size_t rows : sizes) run_in_file(arguments[0], rows);
  for (const std::size_t rows : sizes)
    if (rows <= 1'000'000) run_in_memory(rows);
}
