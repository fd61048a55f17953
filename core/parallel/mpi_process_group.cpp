#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#ifdef ROWGRAD_MPI
#include <mpi.h>
#endif

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>

namespace rowgrad {

const char* launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return rank;
  return nullptr;
}

std::string launched_size() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return size;
  return {};
}

namespace {

#ifdef ROWGRAD_MPI

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongest = 1UL << 30;  // maximum bytes per message; MPI takes an int
constexpr auto kSpins = std::chrono::microseconds(200);  // spin time before yielding

// A time limit, which ends the process with a message if this object still exists after `seconds`.
class StartLimit {
 public:
  explicit StartLimit(double seconds)
      : watch_([this, seconds](const std::stop_token& started) {
          std::unique_lock lock(mutex_);
          const std::chrono::duration<double> limit(seconds);
          if (wake_.wait_for(lock, started, limit, [&] { return started.stop_requested(); }))
            return;
          std::cerr << concat("rank ", launched_rank() != nullptr ? launched_rank() : "?",
                              ": MPI has not started after ", seconds, " seconds: a rank hangs\n");
          std::_Exit(EXIT_FAILURE);
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watch_;  // last, because the thread uses the other members
};

class MpiProcessGroup : public ProcessGroup {
 public:
  explicit MpiProcessGroup(double timeout) : timeout_(timeout) {
    // Reads the launcher's environment variables before MPI starts, because MPI sets them itself if
    // it does not know the launcher.
    const char* const given = launched_rank();
    const std::string launched = given == nullptr ? "" : given;
    const std::string of = given == nullptr ? "" : launched_size();
    const StartLimit limit(timeout);
    int level = 0;
    check_runtime(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) == MPI_SUCCESS,
                  "MPI_Init_thread failed");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int size = 0;
    int rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_ = static_cast<std::size_t>(size);
    rank_ = static_cast<std::size_t>(rank);
    hosts_ = gathered_hosts();
    check_runtime((launched.empty() || launched == std::to_string(rank)) &&
                      (of.empty() || of == std::to_string(size)),
                  "this process was started as rank ", launched, of.empty() ? "" : " of ", of,
                  ", but MPI says it is rank ", rank, " of ", size,
                  "; use the mpirun of the MPI that rowgrad was built with");
  }
  ~MpiProcessGroup() override {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  std::size_t size() const override { return size_; }
  std::size_t rank() const override { return rank_; }
  std::string name_of(std::size_t rank) const override {
    const bool differ = std::ranges::count(hosts_, hosts_[0]) < std::ssize(hosts_);
    return concat("rank ", rank, differ ? " on " + hosts_.at(rank) : "");
  }

 private:
  // Returns the host name of each rank.
  std::vector<std::string> gathered_hosts() const {
    std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
    int length = 0;
    MPI_Get_processor_name(own.data(), &length);
    std::vector<char> all(size_ * own.size());
    const auto bytes = static_cast<int>(own.size());
    check_runtime(MPI_Allgather(own.data(), bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR,
                                MPI_COMM_WORLD) == MPI_SUCCESS,
                  "MPI_Allgather of host names failed");
    std::vector<std::string> hosts;
    for (std::size_t i = 0; i < size_; ++i) hosts.emplace_back(all.data() + i * own.size());
    return hosts;
  }

  // The transfers of a channel.
  struct Requests {
    std::vector<MPI_Request> open;
    std::vector<std::size_t> others;  // other rank of each request
    std::vector<int> done = {};
    std::vector<MPI_Status> statuses = {};
  };

  // A channel is an MPI tag: messages with the same tag arrive in order.
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
    auto last = start, tested = start;  // times of the last progress and of the last test
    while (first_open(requests) < requests.open.size()) {
      const bool news = advance(requests);
      const auto now = Clock::now();
      // A gap of more than timeout_ / 2 between two tests means that this rank was suspended.
      if (news || now - std::exchange(tested, now) > timeout_ / 2) {
        last = now;
      } else if (now - start > kSpins) {
        std::this_thread::yield();
      }
      if (now - last < timeout_) continue;
      std::set<std::size_t> silent;
      for (std::size_t i = 0; i < requests.open.size(); ++i)
        if (requests.open[i] != MPI_REQUEST_NULL) silent.insert(requests.others[i]);
      // Silent ranks may be waiting for the rank that hangs. Waiting longer gives the waiting
      // ranks time to name the hanging rank.
      if (silent.size() > 1 && now - last < 1.25 * timeout_) continue;
      throw std::runtime_error(concat(name_of(*silent.begin()),
                                      silent.size() > 1 ? " or another rank" : "",
                                      " has not answered for ", timeout_.count(),
                                      " seconds: it hangs, is cut off, or is too slow"));
    }
  }

  static std::string reason(int status) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(status, text.data(), &length);
    return text.data();
  }

  void check(int status, std::size_t other) const {
    if (status != MPI_SUCCESS)
      throw std::runtime_error(concat("exchange with ", name_of(other), ": ", reason(status)));
  }

  // Returns true if a request was completed.
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
    if (status != MPI_SUCCESS)  // not caused by a single rank
      throw std::runtime_error(concat("exchange between ranks: ", reason(status)));
    return count > 0;
  }

  static std::size_t first_open(const Requests& requests) {
    return static_cast<std::size_t>(
        std::ranges::find_if(requests.open,
                             [](MPI_Request request) { return request != MPI_REQUEST_NULL; }) -
        requests.open.begin());
  }

  std::chrono::duration<double> timeout_;
  std::size_t size_ = 1;
  std::size_t rank_ = 0;
  std::vector<std::string> hosts_;            // [rank]
  std::map<std::size_t, Requests> requests_;  // [channel]
};

#endif  // ROWGRAD_MPI

}  // namespace

bool started_by_mpi() { return launched_rank() != nullptr; }

#ifdef ROWGRAD_MPI
std::unique_ptr<ProcessGroup> mpi_process_group(double timeout) {
  return std::make_unique<MpiProcessGroup>(timeout);
}
#else
std::unique_ptr<ProcessGroup> mpi_process_group(double) {
  check_runtime(!started_by_mpi() || launched_size() == "1",
                "this program was built without MPI, so its processes cannot communicate; "
                "install the package rowgrad-mpi, or link rowgrad::mpi (libopenmpi-dev)");
  return std::make_unique<SingleProcess>();
}
#endif

}  // namespace rowgrad
