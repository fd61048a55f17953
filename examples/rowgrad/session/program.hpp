#pragma once

// The common part of all programs' main: errors become messages; lost output and signals become
// exit statuses.

#include <functional>
#include <string>

namespace rowgrad {

/// Runs a program's work and returns the exit status for main: the status of `work`, 0 after an
/// EndOfProgram, or `failure` after another exception, whose message goes to standard
/// error, or if standard output could not take all output or was closed. Messages name the program
/// and, if mpirun has started it, rank and host. Ranks after the first one say theirs 4 seconds
/// later: what ends all ranks is said once, as the end of the first one ends the others. Where
/// memory runs out, the program ends at once with a message and that status; Ctrl-C, SIGTERM and
/// SIGHUP end it at once with a message and the status that shells use for them, 130, 143 and 129,
/// unless a HeldInterrupts exists. (Under nohup, SIGHUP does nothing.) A file that exceeds the
/// limit of its size (ulimit -f) cannot be written, as on a full disk.
int run_program(const std::string& name, const std::function<int()>& work, int failure = 1);

/// While one exists, the first of these signals is only recorded, so that work that must not be
/// lost can stop at a suitable point: its loops check interrupted(). The next signal ends the
/// program at once. A recorded signal determines the status that run_program returns.
class HeldInterrupts {
 public:
  HeldInterrupts();
  ~HeldInterrupts();
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
};

/// Returns true if a signal has been recorded, and its name: "Ctrl-C", "SIGTERM" or "SIGHUP".
bool interrupted();
const char* interruption();

}  // namespace rowgrad
