#include <cmath>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/rowgrad/output/book_log.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>

namespace rowgrad {
namespace {

// Appendix D up to the first step that is clipped, and the two versions from there on.
const BookLog kUnclipped = {{10.934, 10.939}, {9.151, 9.461}, {7.949, 8.184},
                            {6.362, 6.876},   {5.851, 6.607}, {5.750, 6.634}};
const BookLog kClippedFrom27 = {
    {4.617, 6.714}, {4.277, 6.640}, {3.194, 6.324}, {2.488, 6.263}, {2.627, 6.264}, {2.193, 6.201},
    {0.818, 6.340}, {0.735, 6.329}, {0.789, 6.390}, {0.293, 6.508}, {0.224, 6.647}, {0.234, 6.746},
    {0.139, 6.827}, {0.093, 6.828}, {0.057, 6.884}, {0.071, 6.917}, {0.039, 6.937}, {0.032, 6.937},
    {0.032, 6.934}, {0.035, 6.936}, {0.035, 6.938}};
const BookLog kClippedFrom28 = {
    {5.225, 6.944}, {4.304, 6.512}, {3.736, 6.383}, {2.395, 6.244}, {2.948, 6.279}, {2.316, 6.169},
    {1.003, 6.343}, {0.860, 6.348}, {1.117, 6.375}, {0.367, 6.498}, {0.289, 6.612}, {0.263, 6.700},
    {0.151, 6.788}, {0.097, 6.805}, {0.081, 6.832}, {0.089, 6.900}, {0.045, 6.911}, {0.047, 6.903},
    {0.038, 6.907}, {0.040, 6.912}, {0.041, 6.915}};

const BookLine* line_after(const BookLog& book, std::size_t steps) {
  constexpr std::size_t kEvery = 5;
  const std::size_t step = steps - 1;  // numbered from 0, as in the book
  return step % kEvery == 0 && step / kEvery < book.size() ? &book[step / kEvery] : nullptr;
}

}  // namespace

BookLog book_log(const std::string& run, std::size_t clip_from) {
  if (run == "5")
    return {{9.781, 9.933}, {8.111, 8.339}, {6.661, 7.048}, {5.961, 6.616}, {5.726, 6.600},
            {5.201, 6.348}, {4.417, 6.278}, {4.069, 6.226}, {3.732, 6.160}, {2.850, 6.179},
            {2.427, 6.141}, {2.104, 6.134}, {1.882, 6.233}, {1.320, 6.238}, {0.985, 6.242},
            {0.717, 6.293}, {0.541, 6.393}, {0.391, 6.452}};
  check_argument(run == "d", "book_log: got ", in_quotes(run), ", expected 5 or d");
  BookLog log = kUnclipped;
  if (clip_from == 27 || clip_from == 28) {
    const BookLog& rest = clip_from == 28 ? kClippedFrom28 : kClippedFrom27;
    log.insert(log.end(), rest.begin(), rest.end());
  }
  return log;
}

std::string beside(const BookLog& book, std::size_t steps) {
  const BookLine* line = line_after(book, steps);
  return line == nullptr ? ""
                         : formatted("   the book's%7.3f%7.3f", line->training, line->validation);
}

std::string compared(const std::vector<TrainingRecord>& history, const BookLog& book) {
  std::size_t numbers = 0;
  std::size_t equal = 0;
  double furthest = 0;
  const auto compare = [&](double ours, double printed) {
    const double off = std::abs(std::round(1000 * ours) - std::round(1000 * printed)) / 1000;
    ++numbers;
    equal += off == 0 ? 1U : 0U;
    if (!(off <= furthest)) furthest = off;  // NaN, too
  };
  for (const TrainingRecord& record : history) {
    const BookLine* line = line_after(book, record.steps);
    if (line == nullptr || record.ends_epoch()) continue;
    compare(record.training_loss, line->training);
    if (record.validation_loss) compare(*record.validation_loss, line->validation);
  }
  return concat(equal, " of ", numbers, " losses are the book's to the last digit",
                equal < numbers ? formatted(", the others up to %.3f off", furthest) : "");
}

}  // namespace rowgrad
