#pragma once

// Checkpoints of models with tables that are split over ranks. Each rank writes its rows into a
// file of its own beside that of the first one, which has all else and says which files belong to
// it. A kill at any moment leaves the checkpoint before whole: new files have other names, and take
// their place when the first rank replaces its file.

#include <filesystem>
#include <span>
#include <string>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

/// Writes `path`, by the first rank, and its parts, path.part-…, by each. All ranks call it, each
/// with its own state: the values that Checkpoint::mark_split() marks go into the parts. Removes
/// the parts of the checkpoint that this one replaces. Throws std::system_error as write_file does,
/// and std::invalid_argument if `parameters` has a split table, but no value is marked.
void write_split_checkpoint(const std::filesystem::path& path, const Checkpoint& state,
                            std::span<Parameter* const> parameters, ProcessGroup& ranks);

/// Writes `path` as write_safetensors() does, and removes the parts of the checkpoint that this one
/// replaces.
void write_whole_checkpoint(const std::filesystem::path& path, const Checkpoint& state);

/// How many ranks have saved a file: 1 if none of its tables is split.
std::size_t saved_ranks(const Checkpoint& file);

/// What the file `path` has together with this rank's rows of split tables, of any number of ranks.
/// Each rank reads the parts that it has; what it lacks, others send. If the file has whole tables,
/// it has those of `parameters`. Throws std::runtime_error if no rank has a part, for a part of
/// another checkpoint or of another rank, if ranks have other checkpoints, or if tables in files
/// are of another number of ranks. Without ranks, this process is alone.
Checkpoint with_split_rows(Checkpoint file, const std::filesystem::path& path,
                           ProcessGroup* ranks = nullptr,
                           std::span<Parameter* const> parameters = {});

}  // namespace rowgrad
