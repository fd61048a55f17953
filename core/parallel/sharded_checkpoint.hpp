#pragma once

// Checkpoints of models with tables that are sharded over ranks. Each rank writes its rows into a
// file of its own beside that of the first one, which has all else and says which files belong to
// it. A kill at any moment leaves the checkpoint before whole: new files have other names, and take
// their place when the first rank replaces its file.

#include <filesystem>
#include <span>
#include <string>

#include <rowgrad/core/parallel/parallel_training.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// Writes `path`, by the first rank, and its parts, path.part-…, by each. All ranks call it, each
/// with its own state: the shards, with what an optimizer keeps for their rows, go into the parts.
/// `parameters` are those of the model. The first rank also writes `of_first`, whose names may have
/// names of tables in them. Removes the parts of the checkpoint that this one replaces.
/// Throws std::system_error as write_file does, and std::invalid_argument if `state` has no rows
/// of a sharded table.
void write_sharded_checkpoint(const std::filesystem::path& path, const StateDict& state,
                              const ParallelTraining& ranks, std::span<Parameter* const> parameters,
                              const StateDict& of_first = {});

/// Writes `path` as write_safetensors() does, and removes the parts of the checkpoint that this one
/// replaces.
void write_whole_checkpoint(const std::filesystem::path& path, const StateDict& state);

/// How many ranks have saved a file: 1 if none of its tables is sharded.
std::size_t saved_ranks(const StateDict& file);

/// Returns what the file `path` has, with the shards of this rank; without sharded tables of
/// `ranks`, with whole tables. Any number of ranks may have saved the file. Each rank reads the
/// parts that it has; what it lacks, others send. If the file has whole tables, their rows are
/// those of `parameters`. Throws std::runtime_error if no rank has a part, for a part of another
/// checkpoint or of another rank, if ranks have other checkpoints, or if tables in files are of
/// another number of ranks.
StateDict with_sharded_rows(StateDict file, const std::filesystem::path& path,
                            const ParallelTraining* ranks = nullptr,
                            std::span<Parameter* const> parameters = {});

}  // namespace rowgrad
