#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <mpi.h>
#include <thread>

#include <rowgrad/core/parallel/mpi_ranks.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

using Clock = std::chrono::steady_clock;

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
  // What is under way on a channel.
  struct Requests {
    std::vector<MPI_Request> open;
    std::vector<std::size_t> others;  // the rank of each
    std::vector<int> done = {};
    std::vector<MPI_Status> statuses = {};
  };

  // A channel is a tag: messages with one tag arrive in order.
  void begin(std::size_t channel, std::span<const Send> sends,
             std::span<const Receive> receives) override {
    Requests& requests = requests_[channel];
    requests.open.clear();
    requests.others.clear();
    const auto each_part = [&](std::size_t other, std::size_t bytes, const auto& call) {
      for (std::size_t at = 0; at < bytes; at += kLongest) {
        requests.open.push_back(MPI_REQUEST_NULL);
        requests.others.push_back(other);
        const auto count = static_cast<int>(std::min(kLongest, bytes - at));
        check(call(at, count, static_cast<int>(other), &requests.open.back()), other);
      }
    };
    const int tag = static_cast<int>(channel);
    for (const Receive& receive : receives)
      each_part(receive.from, receive.bytes.size(),
                [&](auto at, int count, int rank, auto* request) {
                  return MPI_Irecv(receive.bytes.data() + at, count, MPI_BYTE, rank, tag,
                                   MPI_COMM_WORLD, request);
                });
    for (const Send& send : sends)
      each_part(send.to, send.bytes.size(), [&](auto at, int count, int rank, auto* request) {
        return MPI_Isend(send.bytes.data() + at, count, MPI_BYTE, rank, tag, MPI_COMM_WORLD,
                         request);
      });
  }

  bool done(std::size_t channel) override {
    advance(requests_[channel]);
    return first_open(requests_[channel]) == requests_[channel].open.size();
  }

  void finish(std::size_t channel) override {
    Requests& requests = requests_[channel];
    const auto start = Clock::now();
    auto last = start;  // when something came
    while (first_open(requests) < requests.open.size()) {
      const bool news = advance(requests);
      const auto now = Clock::now();
      if (news) {
        last = now;
      } else if (now - start > kSpins) {
        std::this_thread::yield();
      }
      if (std::chrono::duration<double>(now - last).count() < patience_) continue;
      throw std::runtime_error(concat(
          "rank ", rank_, ": rank ", requests.others[first_open(requests)],
          " has not answered for ", patience_, " seconds; it hangs, or is slower than the others"));
    }
  }

  void check(int status, std::size_t other) const {
    check_runtime(status == MPI_SUCCESS, "rank ", rank_, ": rank ", other,
                  " cannot be reached any more (MPI error ", status, ")");
  }

  // Whether some of them have become complete.
  bool advance(Requests& requests) const {
    if (requests.open.empty()) return false;
    requests.done.resize(requests.open.size());
    requests.statuses.resize(requests.open.size());
    int count = 0;
    const int status = MPI_Testsome(static_cast<int>(requests.open.size()), requests.open.data(),
                                    &count, requests.done.data(), requests.statuses.data());
    for (int i = 0; status == MPI_ERR_IN_STATUS && i < count; ++i)
      check(requests.statuses[static_cast<std::size_t>(i)].MPI_ERROR,
            requests.others[static_cast<std::size_t>(requests.done[static_cast<std::size_t>(i)])]);
    check(status, requests.others.front());
    return count > 0;
  }

  static std::size_t first_open(const Requests& requests) {
    return static_cast<std::size_t>(
        std::ranges::find_if(requests.open,
                             [](MPI_Request request) { return request != MPI_REQUEST_NULL; }) -
        requests.open.begin());
  }

  double patience_;
  std::size_t size_ = 1;
  std::size_t rank_ = 0;
  std::map<std::size_t, Requests> requests_;  // [channel]
};

}  // namespace

bool started_by_mpi() {
  const char* const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::ranges::any_of(names, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::unique_ptr<Ranks> mpi_ranks(double patience) { return std::make_unique<MpiRanks>(patience); }

}  // namespace rowgrad
