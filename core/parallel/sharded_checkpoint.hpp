#pragma once

// Checkpoints of models with sharded tables. Each rank writes its rows to a file, called a part.
// The main file, which the first rank writes, has everything else and names the parts next to it. A
// crash leaves the previous checkpoint whole, as new parts have new names and take effect when the
// main file is replaced.

#include <filesystem>
#include <span>
#include <string>

#include <rowgrad/core/parallel/parallel_training.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// Writes `path` on the first rank, and a part path.part-… on each rank. All ranks must call it,
/// each with its own state; shards and their optimizer state go into parts. `parameters` are the
/// model's. The first rank also writes `first_rank_values`, whose names may contain names of
/// tables. Removes the parts of the replaced checkpoint. Throws std::system_error as write_file()
/// does, and std::invalid_argument if `state` has no rows of the sharded tables.
void write_sharded_checkpoint(const std::filesystem::path& path, const StateDict& state,
                              const ParallelTraining& ranks, std::span<Parameter* const> parameters,
                              const StateDict& first_rank_values = {});

/// Writes `path` as write_safetensors() does, and removes the parts of the replaced checkpoint.
void write_whole_checkpoint(const std::filesystem::path& path, const StateDict& state);

/// Returns the number of ranks that saved a file; 1 if it has no sharded tables.
std::size_t saved_ranks(const StateDict& file);

/// Returns `file`, which was read from `path`, with the rows of this rank's shards. If `ranks` is
/// null or has no sharded tables, returns whole tables. Any number of ranks may have saved the
/// file. Other ranks send the parts that this rank lacks. If the file has whole tables, each rank
/// takes its rows of the tables in `parameters`. Throws std::runtime_error if a part is missing on
/// all ranks or belongs to another checkpoint or rank, if ranks have different checkpoints, or if
/// tables in files were saved by another number of ranks.
StateDict with_sharded_rows(StateDict file, const std::filesystem::path& path,
                            const ParallelTraining* ranks = nullptr,
                            std::span<Parameter* const> parameters = {});

}  // namespace rowgrad
