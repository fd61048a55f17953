#pragma once

// What every program's main does around its work: errors become messages, lost output and signals
// become exit statuses. It knows nothing of `real`, so that programs with either library have it.

#include <functional>
#include <string>

namespace rowgrad {

/// Runs a program's work and returns what main returns: the status that `work` gives; 1 after an
/// exception, whose message goes to standard error, and where standard output could not take all
/// that was printed. Ctrl-C and SIGTERM end the program at once with a message and the status that
/// shells give for them, 130 and 143, but while a HeldInterrupts lives.
int run_program(const std::string& name, const std::function<int()>& work);

/// While one lives, the first Ctrl-C or SIGTERM is noted and nothing more, so that work which must
/// not be lost can end where it likes: its loops ask interrupted(). The next one ends the program
/// at once. One that was noted becomes the status of run_program.
class HeldInterrupts {
 public:
  HeldInterrupts();
  ~HeldInterrupts();
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
};

/// Whether a signal has been noted, and which: "Ctrl-C" or "SIGTERM".
bool interrupted();
const char* interruption();

}  // namespace rowgrad
