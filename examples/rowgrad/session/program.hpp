#pragma once

// The common part of all main functions: turns errors into messages, and lost output and signals
// into exit statuses.

#include <functional>
#include <string>

namespace rowgrad {

/// Runs a program and returns the exit status for main: the status of `work`, or 0 after an
/// EndOfProgram. After any other exception, prints its message to standard error and returns
/// `failure`. Also returns `failure` if standard output is closed or cannot take all output.
///
/// The process exits at once, with a message, if it runs out of memory (status `failure`), and
/// after Ctrl-C, SIGTERM or SIGHUP (status 130, 143 or 129, as in shells) unless a HeldInterrupts
/// exists. Under nohup, SIGHUP is ignored. Exceeding the file size limit (ulimit -f) is a write
/// error.
///
/// Messages name the program and, under mpirun, rank and host. Ranks after the first wait 4 seconds
/// before they print, so that an error of all ranks is printed once.
int run_program(const std::string& name, const std::function<int()>& work, int failure = 1);

/// A guard under which the first Ctrl-C, SIGTERM or SIGHUP is only recorded, so that work that
/// checks interrupted() can stop without loss. The next signal ends the program at once. A recorded
/// signal determines the status that run_program returns.
class HeldInterrupts {
 public:
  HeldInterrupts();
  ~HeldInterrupts();
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
};

/// Returns true if a signal has been recorded.
bool interrupted();
/// Returns the name of the recorded signal: "Ctrl-C", "SIGTERM" or "SIGHUP".
const char* interruption();

}  // namespace rowgrad
