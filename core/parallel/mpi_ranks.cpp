#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mpi.h>
#include <thread>

#include <rowgrad/core/parallel/mpi_ranks.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 1;
constexpr std::size_t kLongest = std::size_t{1}
                                 << 30;  // bytes of a message: MPI counts them as int
constexpr auto kSpins = std::chrono::microseconds(200);  // before others get the processor

class MpiRanks : public Ranks {
 public:
  explicit MpiRanks(double patience) : patience_(patience) {
    int level = 0;
    check_runtime(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) == MPI_SUCCESS,
                  "MPI does not start");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int size = 0;
    int rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_ = static_cast<std::size_t>(size);
    rank_ = static_cast<std::size_t>(rank);
  }
  ~MpiRanks() override {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  std::size_t size() const override { return size_; }
  std::size_t rank() const override { return rank_; }

 private:
  void transfer(std::span<const Send> sends, std::span<const Receive> receives) override {
    requests_.clear();
    others_.clear();
    for (const Receive& receive : receives)
      for (std::size_t at = 0; at < receive.bytes.size(); at += kLongest)
        start(receive.from, std::min(kLongest, receive.bytes.size() - at),
              [&](int count, int rank) {
                return MPI_Irecv(receive.bytes.data() + at, count, MPI_BYTE, rank, kTag,
                                 MPI_COMM_WORLD, &requests_.back());
              });
    for (const Send& send : sends)
      for (std::size_t at = 0; at < send.bytes.size(); at += kLongest)
        start(send.to, std::min(kLongest, send.bytes.size() - at), [&](int count, int rank) {
          return MPI_Isend(send.bytes.data() + at, count, MPI_BYTE, rank, kTag, MPI_COMM_WORLD,
                           &requests_.back());
        });
    wait();
  }

  void start(std::size_t other, std::size_t bytes, const auto& call) {
    requests_.push_back(MPI_REQUEST_NULL);
    others_.push_back(other);
    check(call(static_cast<int>(bytes), static_cast<int>(other)), other);
  }

  void check(int status, std::size_t other) const {
    check_runtime(status == MPI_SUCCESS, "rank ", rank_, ": rank ", other,
                  " cannot be reached any more (MPI error ", status, ")");
  }

  void wait() {
    const auto start = Clock::now();
    std::vector<int> done(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    const auto is_open = [](MPI_Request request) { return request != MPI_REQUEST_NULL; };
    auto last = start;  // when something came
    while (std::ranges::any_of(requests_, is_open)) {
      int count = 0;
      const int status = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                      done.data(), statuses.data());
      for (int i = 0; status == MPI_ERR_IN_STATUS && i < count; ++i)
        check(statuses[static_cast<std::size_t>(i)].MPI_ERROR,
              others_[static_cast<std::size_t>(done[static_cast<std::size_t>(i)])]);
      check(status, others_.front());
      const auto now = Clock::now();
      if (count > 0) {
        last = now;
      } else if (now - start > kSpins) {
        std::this_thread::yield();
      }
      if (std::chrono::duration<double>(now - last).count() < patience_) continue;
      const auto open = std::ranges::find_if(requests_, is_open) - requests_.begin();
      throw std::runtime_error(concat(
          "rank ", rank_, ": rank ", others_[static_cast<std::size_t>(open)],
          " has not answered for ", patience_, " seconds; it hangs, or is slower than the others"));
    }
  }

  double patience_;
  std::size_t size_ = 1;
  std::size_t rank_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<std::size_t> others_;  // the rank of each request
};

}  // namespace

bool started_by_mpi() {
  const char* const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::ranges::any_of(names, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::unique_ptr<Ranks> mpi_ranks(double patience) { return std::make_unique<MpiRanks>(patience); }

}  // namespace rowgrad
