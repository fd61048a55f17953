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
#include <charconv>
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

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/optim/adaptive.hpp>
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

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
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
  return median(times);
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

void remove_table(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path()))
    if (entry.path().filename().string().starts_with(path.filename().string()))
      std::filesystem::remove(entry.path());
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
  remove_table(path);
  std::cout << std::setw(11) << rows << std::setw(11) << size / 1e9 << std::setw(12) << used / 1e6
            << std::setw(11) << fresh << std::setw(11) << cold << std::setw(11) << marked
            << std::setw(11) << warm << std::setw(12) << checkpoint << std::setw(12)
            << resident_mb() << std::endl;
}

// W5's GPT with its table in a file that is opened, or made if it is not there.
class GptInFile {
 public:
  GptInFile(const std::filesystem::path& path, std::size_t rows)
      : file_(open(path, rows)), model_(options(*file_, rows), random_), adamw_(groups(model_)) {
    Random random(2);
    for (std::size_t i = 0; i < kSets; ++i) {
      batches_.push_back(Ids::from_shape({12, 64}));
      for (std::int32_t& id : batches_.back())
        id = static_cast<std::int32_t>(random.bits() % kVocabulary);
    }
  }

  // The median step over all batches, each of which is first brought into memory in half of its
  // rows, if these are to be half cold.
  double step_ms(bool half_cold, bool reads_ahead) {
    if (half_cold)
      for (const Ids& batch : batches_) {
        const Ids rows = table().hash().rows(batch);
        file_->bring_in(std::span(rows.storage()).first(rows.size() / 2));
      }
    std::vector<double> times;
    for (std::size_t i = 0; i < kSets; ++i)
      times.push_back(milliseconds([&] {
        if (reads_ahead && i + 1 < kSets) model_.read_ahead({.ids = {batches_[i + 1], {}}});
        adamw_.zero_grad();
        Tape tape;
        tape.backward(model_.loss(tape, batches_[i], batches_[(i + 1) % kSets]));
        adamw_.step();
      }));
    return median(times);
  }

  void checkpoint() { file_->checkpoint(); }

  // Leaves all rows on the disk alone.
  void drop_rows() {
    const auto page = reinterpret_cast<std::uintptr_t>(file_->row(0)) / 4096 * 4096;
    ::madvise(reinterpret_cast<void*>(page), file_->rows() * file_->stride_bytes(), MADV_DONTNEED);
    drop_pages(file_->path());
  }

 private:
  static constexpr std::size_t kVocabulary = 8192;

  static std::unique_ptr<TableFile> open(const std::filesystem::path& path, std::size_t rows) {
    if (std::filesystem::exists(path)) return std::make_unique<TableFile>(path);
    const NgramHash hash(kVocabulary, {.rows = rows}, {1}, 1);
    return std::make_unique<TableFile>(
        path, TableFileOptions{.rows = hash.table_rows(), .width = 16, .states = 2});
  }

  static GptOptions options(TableFile& file, std::size_t rows) {
    return {.vocabulary = kVocabulary,
            .context = 64,
            .width = 128,
            .heads = 4,
            .layers = 4,
            .memories = {.blocks = {1}, .ngrams = {.rows = rows}, .files = {&file}}};
  }

  static std::vector<AdamW::Group> groups(GptModel& model) {
    AdamW::Group others{{}, {}}, tables{{}, {.learning_rate = 5e-3, .weight_decay = 0}};
    for (Parameter* each : model.parameters())
      (each->stored().allows_passes() ? others : tables).parameters.push_back(each);
    return {others, tables};
  }

  const NgramMemory& table() { return model_.memories[0]; }

  Random random_{1};
  std::unique_ptr<TableFile> file_;
  GptModel model_;
  AdamW adamw_;
  std::vector<Ids> batches_;
};

void run_memory(const std::filesystem::path& folder, std::size_t rows) {
  const std::filesystem::path path = folder / "bench-memory.table";
  GptInFile gpt(path, rows);
  const double fresh = gpt.step_ms(false, false);
  gpt.checkpoint();
  const double marked = gpt.step_ms(false, false);
  const double warm = gpt.step_ms(false, true);
  gpt.drop_rows();
  const double cold = gpt.step_ms(true, false);
  gpt.drop_rows();
  const double ahead = gpt.step_ms(true, true);
  std::cout << "8 x " << rows << " rows, "
            << static_cast<double>(std::filesystem::file_size(path)) / 1e9 << " GB, "
            << bytes_on_disk(path) / 1e6 << " MB used; ms a step: new " << fresh << ", marked "
            << marked << ", warm " << warm << ", half cold " << cold << ", read ahead " << ahead
            << "; peak " << resident_mb() << " MB" << std::endl;
  remove_table(path);
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

int usage() {
  std::cerr << "usage: bench_table_file FOLDER [--memory] [ROWS]...\n";
  return 2;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  if (argc < 2) return rowgrad::usage();
  std::cout << std::fixed << std::setprecision(2);
  const bool memory = argc > 2 && argv[2] == std::string_view("--memory");
  std::vector<std::size_t> sizes;
  for (int i = memory ? 3 : 2; i < argc; ++i) {
    const std::string_view text = argv[i];
    std::size_t& rows = sizes.emplace_back(0);
    const auto [end, error] = std::from_chars(text.begin(), text.end(), rows);
    if (error != std::errc() || end != text.end() || rows == 0) return rowgrad::usage();
  }
  if (memory) {
    rowgrad::run_memory(argv[1], sizes.empty() ? 12'500'000 : sizes.front());
    return 0;
  }
  if (sizes.empty()) sizes = {1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  std::cout << "       rows    file GB     used MB     new ms    cold ms  marked ms    warm ms  "
               "checkpoint ms"
               "  peak MB\n";
  for (const std::size_t rows : sizes) rowgrad::run_in_file(argv[1], rows);
  for (const std::size_t rows : sizes)
    if (rows <= 1'000'000) rowgrad::run_in_memory(rows);
}
