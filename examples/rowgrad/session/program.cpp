#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <new>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kNoMemory = "not enough memory; try smaller sizes, or fewer threads";

// Prints to standard error. Allocates no memory, and may be called in a signal handler. Uses a
// single write, so that lines of several processes do not mix.
void print_error(std::initializer_list<std::string_view> texts) {
  std::array<iovec, 5> parts;
  std::size_t count = 0;
  for (const std::string_view text : texts)
    parts[count++] = {const_cast<char*>(text.data()), text.size()};
  [[maybe_unused]] const ssize_t written =
      ::writev(STDERR_FILENO, parts.data(), static_cast<int>(count));
}

// Exits if there is too little memory for OpenBLAS, which maps a buffer for each of its threads
// before main, and retries forever if that fails. Runs as the first function of the process, before
// the C library is initialized, so it reads the environment from its argument, not with getenv().
void check_startup_memory(int, char** arguments, char** environment) {
  cpu_set_t usable;
  int threads = ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  int most = 0;  // the largest value of these variables
  for (const std::string_view name :
       {"OMP_NUM_THREADS=", "GOTO_NUM_THREADS=", "OPENBLAS_NUM_THREADS="})
    for (char** variable = environment; *variable != nullptr; ++variable)
      if (std::string_view(*variable).starts_with(name))
        most = std::max(most, std::atoi(*variable + name.size()));
  if (most > 0) threads = std::min(threads, most);
  if (room_for_threads(threads)) return;
  print_error({arguments[0],
               ": not enough memory to start; try OMP_NUM_THREADS=1, which needs the least\n"});
  ::_exit(1);
}
[[gnu::section(".preinit_array"), gnu::used]] auto* first_of_all = check_startup_memory;

// These are atomic because any thread may receive the signal.
std::atomic<int> noted = 0;
std::atomic<bool> held = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

constexpr int kStatusOfSignals = 128;  // shells report 128 + the signal number

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
constexpr std::array kNames{"Ctrl-C", "SIGTERM", "SIGHUP"};

std::size_t index_of(int signal) {
  return static_cast<std::size_t>(std::ranges::find(kSignals, signal) - kSignals.begin());
}

auto& program = *new std::string;  // never destroyed: a signal may arrive after main
int status_of_failure = 1;
bool is_follower = false;  // true for ranks of mpirun except the first

// Ranks after the first delay their messages by this time. If the first rank also fails, Open MPI
// ends the other ranks earlier (within 3 seconds on several machines), so only the first rank
// prints a message.
constexpr auto kFollowerDelay = std::chrono::seconds(4);

void handle(int signal) {
  int none = 0;
  if (held && noted.compare_exchange_strong(none, signal)) return;
  const char* const name = kNames[index_of(signal)];
  const std::string_view begin = ::isatty(STDERR_FILENO) == 1 ? "\n" : "";
  if (!is_follower) print_error({begin, program, ": stopped by ", name, "\n"});
  ::_exit(kStatusOfSignals + signal);
}

void handle_signals() {
  ::signal(SIGXFSZ, SIG_IGN);  // writing beyond the file size limit then fails with a message
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;  // a recorded signal must not interrupt saving
  for (const int signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;  // set by nohup
    ::sigaction(signal, &action, nullptr);
  }
}

// Exits at once when memory runs out. An exception might not end the program, as destructors of
// nlohmann/json also allocate. Saved files stay complete, however a program ends.
void end_without_memory() {
  std::cout.flush();
  print_error({program, ": ", kNoMemory, "\n"});
  ::_exit(status_of_failure);
}

// Opens standard streams that were closed, as by >&- in a shell. Otherwise, a file opened later
// could become standard output. Writing to a closed standard output then fails, so lost output is
// noticed.
void open_standard_files() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (::fcntl(number, F_GETFD) < 0)  // closed; open() uses the lowest free number
      ::open(number == STDOUT_FILENO ? "/dev/full" : "/dev/null", O_RDWR);
}

void report_error(std::initializer_list<std::string_view> texts) {
  std::cout.flush();
  held = false;  // from here on, a signal ends the program
  if (is_follower) std::this_thread::sleep_for(kFollowerDelay);
  print_error(texts);
}

int fail(std::string_view what) {
  report_error({program, ": ", what, "\n"});
  return status_of_failure;
}

// Returns "rowgrad train" or, under mpirun, "rowgrad train: rank 1 on h2".
std::string name_of_process(const std::string& name, const char* rank) {
  if (rank == nullptr) return name;
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  return concat(name, ": rank ", rank, known ? concat(" on ", host.data()) : "");
}

}  // namespace

int run_program(const std::string& name, const std::function<int()>& work, int failure) {
  const char* const rank = launched_rank();
  program = name_of_process(name, rank);
  is_follower = rank != nullptr && std::string_view(rank) != "0";
  status_of_failure = failure;
  open_standard_files();
  handle_signals();
  std::set_new_handler(end_without_memory);
  int status = 0;
  try {
    status = work();
  } catch (const EndOfProgram&) {
    status = 0;
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory);
  } catch (const std::length_error&) {  // a size that no container supports
    return fail(kNoMemory);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(concat("cannot use ", error.path1().string(), ": ", error.code().message()));
  } catch (const std::exception& error) {
    return fail(error.what());
  }
  std::cout.flush();
  if (!std::cout) return fail("cannot write to standard output");
  const int signal = noted.exchange(0);
  return signal != 0 ? kStatusOfSignals + signal : status;
}

HeldInterrupts::HeldInterrupts() { held = true; }
HeldInterrupts::~HeldInterrupts() { held = false; }

bool interrupted() { return noted != 0; }
const char* interruption() { return kNames[index_of(noted)]; }

}  // namespace rowgrad
