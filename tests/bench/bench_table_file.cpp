// Steps on tables of more and more rows, in a file and in memory: 4,096 lookups of width 64, and
// SGD with momentum and decay.
//   build/tests/bench/bench_table_file FOLDER [ROWS]...
// "new" rows never changed before. "warm" ones are in memory, and "marked" ones too, but they
// change for the first time after a checkpoint. "cold" ones are both, and on the disk only: the
// table was closed, and its pages were dropped. Limit the memory to see that nothing needs the
// whole:
//   systemd-run --scope -p MemoryMax=1G …, or a cgroup by hand

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <rowgrad/core/autograd/table_file.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kWidth = 64;
constexpr std::size_t kLookups = 4096;
constexpr std::size_t kSets = 16;  // of lookups, which are repeated to be warm
constexpr SgdOptions kOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4};

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The lookups of a set: anywhere in the table, some of them twice.
Ids lookups(std::size_t rows, std::size_t set) {
  Ids ids = Ids::from_shape({kLookups});
  for (std::size_t i = 0; i < kLookups; ++i)
    ids.data()[i] = static_cast<std::int32_t>(splitmix64(set * kLookups + i) % rows);
  return ids;
}

// The median step over all sets.
double step_ms(Embedding& table, Optimizer& optimizer) {
  std::vector<double> times;
  for (std::size_t set = 0; set < kSets; ++set) {
    const Ids ids = lookups(table.weight.shape()[0], set);
    times.push_back(milliseconds([&] {
      optimizer.zero_grad();
      Tape tape;
      tape.backward(sum(table.forward(tape, ids)));
      optimizer.step();
    }));
  }
  std::nth_element(times.begin(), times.begin() + kSets / 2, times.end());
  return times[kSets / 2];
}

double bytes_on_disk(const std::filesystem::path& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  return 512.0 * static_cast<double>(status.st_blocks);
}

void drop_pages(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

long resident_mb() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

void run_in_file(const std::filesystem::path& folder, std::size_t rows) {
  const std::filesystem::path path = folder / concat("bench-", rows, ".table");
  double fresh, marked, warm, cold, checkpoint;
  Checkpoint model, optimizer;
  {
    TableFile file(path, {.rows = rows, .width = kWidth, .states = 1});
    Embedding table(file);
    SGD sgd({&table.weight}, kOptions);
    fresh = step_ms(table, sgd);
    checkpoint = milliseconds([&] { file.checkpoint(); });
    marked = step_ms(table, sgd);
    warm = step_ms(table, sgd);
    file.checkpoint();
    model = table.state_dict();
    optimizer = sgd.state_dict();
  }
  drop_pages(path);
  {
    TableFile file(path);
    Embedding table(file);
    SGD sgd({&table.weight}, kOptions);
    table.load_state_dict(model);
    sgd.load_state_dict(optimizer);
    cold = step_ms(table, sgd);
  }
  const double size = static_cast<double>(std::filesystem::file_size(path));
  const double used = bytes_on_disk(path);
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(path.filename().string()))
      std::filesystem::remove(entry.path());
  std::cout << std::setw(11) << rows << std::setw(11) << size / 1e9 << std::setw(12) << used / 1e6
            << std::setw(11) << fresh << std::setw(11) << cold << std::setw(11) << marked
            << std::setw(11) << warm << std::setw(12) << checkpoint << std::setw(12)
            << resident_mb() << std::endl;
}

void run_in_memory(std::size_t rows) {
  Random random(1);
  Embedding table(rows, kWidth, random);
  SGD sgd({&table.weight}, kOptions);
  const double fresh = step_ms(table, sgd);
  step_ms(table, sgd);
  std::cout << std::setw(11) << rows << "  in memory            " << std::setw(11) << fresh
            << std::setw(33) << step_ms(table, sgd) << std::endl;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_table_file FOLDER [ROWS]...\n";
    return 2;
  }
  std::vector<std::size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::stoul(argv[i]));
  if (sizes.empty()) sizes = {1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  std::cout << std::fixed << std::setprecision(2)
            << "       rows    file GB     used MB     new ms    cold ms  marked ms    warm ms  "
               "checkpoint ms"
               "  peak MB\n";
  for (const std::size_t rows : sizes) rowgrad::run_in_file(argv[1], rows);
  for (const std::size_t rows : sizes)
    if (rows <= 1'000'000) rowgrad::run_in_memory(rows);
}
