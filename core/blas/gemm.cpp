#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

// Included before xblas.hpp, which tests HAVE_CBLAS before it includes this header (xtensor-blas
// 0.21 and later). Without BLAS, every product would silently be a plain loop.
#include <xtensor-blas/xblas_config.hpp>
#ifndef HAVE_CBLAS
#error "xtensor-blas is configured without BLAS; rowgrad needs OpenBLAS"
#endif
#include <xtensor-blas/xblas.hpp>

#include <rowgrad/core/blas/gemm.hpp>

extern "C" {
// From OpenBLAS, whose cblas.h is not included because xtensor-blas declares the same functions
// with other types.
int openblas_get_parallel();
// Allocate and free the buffer of a product. No header declares these functions, and another BLAS
// may lack them.
[[gnu::weak]] void* blas_memory_alloc(int);
[[gnu::weak]] void blas_memory_free(void*);
// From OpenMP, if OpenBLAS was built on it.
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int);
}

namespace rowgrad::blas {
namespace {

constexpr std::size_t kFewestProducts = std::size_t{1} << 19;  // multiplications worth a thread
constexpr std::size_t kRangeStep = 192;                        // a multiple of BLAS's tile sizes
constexpr std::size_t kFewestSums = std::size_t{1} << 15;      // additions worth a thread

// A scope in which an OpenBLAS that was built on OpenMP uses only the calling thread. Such a build
// uses the number of threads that OpenMP has set for the calling thread.
class SingleThreadScope {
 public:
  SingleThreadScope()
      : threads_before_(omp_get_max_threads != nullptr ? omp_get_max_threads() : 1) {
    if (threads_before_ > 1) omp_set_num_threads(1);
  }
  ~SingleThreadScope() {
    if (threads_before_ > 1) omp_set_num_threads(threads_before_);
  }
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int threads_before_;
};

// Makes OpenBLAS map, and keep, the buffers of `products` products in advance. If a product could
// not map its buffer, OpenBLAS would retry forever. Returns false if memory is too small.
bool reserve_buffers(int products) {
  if (blas_memory_alloc == nullptr) return true;
  if (!room_for_threads(products)) return false;
  std::vector<void*> buffers(static_cast<std::size_t>(products));
  for (void*& buffer : buffers) buffer = blas_memory_alloc(0);
  for (void* const buffer : buffers) blas_memory_free(buffer);
  return true;
}

// Returns true if products must be computed one at a time: if memory is too small for more buffers,
// or if OpenBLAS was built without threads, as such a build may not be thread-safe.
bool takes_turns() {
  static std::mutex mutex;
  static std::atomic<int> prepared = 0;  // number of threads with buffers
  static std::atomic<bool> turns = openblas_get_parallel() == 0;
  if (const int threads = thread_count(); threads > prepared) {
    const std::scoped_lock lock(mutex);
    if (!turns && !reserve_buffers(threads)) turns = true;
    if (turns && prepared == 0 && !reserve_buffers(1)) throw std::bad_alloc();
    prepared = threads;
  }
  return turns;
}
std::unique_lock<std::mutex> turn() {
  static std::mutex mutex;
  return takes_turns() ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}

cxxblas::Transpose transpose_of(bool transposed) {
  return transposed ? cxxblas::Transpose::Trans : cxxblas::Transpose::NoTrans;
}
xt::blas_index_t stride_of(const MatrixView& x) {
  return static_cast<xt::blas_index_t>(x.is_transposed() ? std::max(x.column_stride, x.rows)
                                                         : std::max(x.row_stride, x.columns));
}

// Returns a block of x with `rows` rows from `row` on, and `columns` columns from `column` on.
MatrixView block(const MatrixView& x, std::size_t row, std::size_t rows, std::size_t column,
                 std::size_t columns) {
  return {x.at(row, column), rows, columns, x.row_stride, x.column_stride};
}

// Adds `terms` to `sums`, both of `count` elements, on all threads.
void add(const real* terms, real* sums, std::size_t count) {
  const std::size_t ranges = range_count(count, kFewestSums);
  run_ranges(ranges, FunctionRef([&](std::size_t range) {
               const std::size_t begin = count * range / ranges;
               const std::size_t end = count * (range + 1) / ranges;
               std::transform(terms + begin, terms + end, sums + begin, sums + begin,
                              std::plus<>());
             }));
}

// Computes to = a · b + beta · to on the calling thread. The rows of `to` are `stride` elements
// apart.
void multiply(const MatrixView& a, const MatrixView& b, real* to, std::size_t stride, real beta) {
  using Index = xt::blas_index_t;
  const auto lock = turn();
  const SingleThreadScope scope;
  const auto columns = static_cast<Index>(b.columns);
  const auto inner = static_cast<Index>(b.rows);
  if (a.rows == 1) {  // gemm would copy all of b first
    const bool transposed = !b.is_transposed();
    cxxblas::gemv<Index>(cxxblas::StorageOrder::RowMajor, transpose_of(transposed),
                         transposed ? inner : columns, transposed ? columns : inner, real{1},
                         b.data, stride_of(b), a.data, static_cast<Index>(a.column_stride), beta,
                         to, Index{1});
    return;
  }
  cxxblas::gemm<Index>(cxxblas::StorageOrder::RowMajor, transpose_of(a.is_transposed()),
                       transpose_of(b.is_transposed()), static_cast<Index>(a.rows), columns, inner,
                       real{1}, a.data, stride_of(a), b.data, stride_of(b), beta, to,
                       static_cast<Index>(stride));
}

}  // namespace

void gemm(const MatrixView& a, const MatrixView& b, const Matrix& result, real beta) {
  const std::size_t rows = a.rows, inner = a.columns, columns = b.columns;
  check_argument(inner == b.rows && rows == result.rows && columns == result.columns, "gemm: [",
                 rows, ", ", inner, "] times [", b.rows, ", ", columns, "] into [", result.rows,
                 ", ", result.columns, "], expected [m, k] times [k, n] into [m, n]");
  for (const MatrixView& x : {a, b}) {
    const bool fits = x.is_transposed()
                          ? x.row_stride == 1 && (x.column_stride >= x.rows || x.columns <= 1)
                          : x.row_stride >= x.columns || x.rows <= 1;
    check_argument(fits, "gemm: a factor [", x.rows, ", ", x.columns, "] has strides ",
                   x.row_stride, " and ", x.column_stride,
                   ", expected a stride of 1 and rows that do not overlap");
  }
  constexpr auto kLargest = static_cast<std::size_t>(std::numeric_limits<int>::max());
  check_argument(std::max({rows, inner, columns, a.row_stride, a.column_stride, b.row_stride,
                           b.column_stride}) <= kLargest,
                 "gemm: a size or stride of [", rows, ", ", inner, "] times [", inner, ", ",
                 columns, "] exceeds BLAS's limit of ", kLargest);
  if (rows == 0 || columns == 0) return;
  if (inner == 0) {
    std::transform(result.data, result.data + rows * columns, result.data,
                   [beta](real x) { return beta == 0 ? 0 : beta * x; });
    return;
  }
  prepare();
  if (inner * rows * columns < 2 * kFewestProducts)  // too little for two threads
    return multiply(a, b, result.data, columns, beta);
  // If the inner dimension is the longest, as for the gradient of a weight, the result is the sum
  // of two halves on any number of threads. Each of two threads then reads half of the factors,
  // usually the half that the thread has written itself. The longer side of the result (or of each
  // half) is cut into ranges, because every range reads and packs the factor along the other side.
  const bool by_inner = inner > std::max(rows, columns);
  const bool by_rows = rows > columns;
  const std::size_t halves = by_inner ? 2 : 1;
  const std::size_t length = by_rows ? rows : columns;
  const std::size_t work_each = inner / halves * (by_rows ? columns : rows);
  const std::size_t fewest = std::max(kRangeStep, (kFewestProducts + work_each - 1) / work_each);
  const std::size_t ranges =
      takes_turns() ? 1 : std::max<std::size_t>(1, range_count(halves * length, fewest) / halves);
  const auto edge = [&](std::size_t range) {
    return range == ranges ? length : length * range / ranges / kRangeStep * kRangeStep;
  };
  std::optional<Tensor> second_half;
  if (by_inner) second_half = empty({rows, columns});
  run_ranges(halves * ranges, FunctionRef([&](std::size_t part) {
               const std::size_t half = part / ranges, begin = edge(part % ranges);
               const std::size_t count = edge(part % ranges + 1) - begin;
               if (count == 0) return;
               const std::size_t first = half * (inner / 2);
               const std::size_t terms = half + 1 == halves ? inner - first : inner / 2;
               const std::size_t row = by_rows ? begin : 0, column = by_rows ? 0 : begin;
               real* const to = half == 0 ? result.data : second_half->data();
               multiply(block(a, row, by_rows ? count : rows, first, terms),
                        block(b, first, terms, column, by_rows ? columns : count),
                        to + row * columns + column, columns, half == 0 ? beta : 0);
             }));
  if (second_half) add(second_half->data(), result.data, rows * columns);
}

}  // namespace rowgrad::blas
