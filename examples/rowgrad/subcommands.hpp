#pragma once

// The subcommands of rowgrad: each has a file of its name.

namespace rowgrad {

/// Each reads its arguments, of which the first is its name, does its work, and returns the exit
/// status. What it throws is an error for the user.
int train_command(int argc, const char* const* argv);
int generate_command(int argc, const char* const* argv);
int rows_command(int argc, const char* const* argv);
int finetune_command(int argc, const char* const* argv);
int tokenize_command(int argc, const char* const* argv);
int compare_command(int argc, const char* const* argv);
int report_command(int argc, const char* const* argv);

}  // namespace rowgrad
