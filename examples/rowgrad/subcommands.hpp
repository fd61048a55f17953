#pragma once

// The subcommands of rowgrad, each in a file of its name.

namespace rowgrad {

/// Run a subcommand and return its exit status. argv[0] is the subcommand's name. Exceptions are
/// reported as errors.
int train_command(int argc, const char* const* argv);
int generate_command(int argc, const char* const* argv);
int rows_command(int argc, const char* const* argv);
int finetune_command(int argc, const char* const* argv);
int tokenize_command(int argc, const char* const* argv);
int compare_command(int argc, const char* const* argv);
int report_command(int argc, const char* const* argv);

}  // namespace rowgrad
