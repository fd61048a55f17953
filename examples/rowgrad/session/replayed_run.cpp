#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/session/replayed_run.hpp>
#include <rowgrad/examples/rowgrad/session/scratch_folder.hpp>

namespace rowgrad {

ReplayedRun::ReplayedRun(const std::string& path, const std::string& from,
                         const std::vector<std::string>& corpus)
    : path_(path),
      file_(with_sharded_rows(read_safetensors(path), path)),
      options_(saved_options(file_, path)),
      corpus_(Corpus::find(corpus.empty() ? saved_corpus(file_, path) : corpus)),
      last_(file_.count("steps")) {
  check_argument(last_ > 0, path, ": has made no steps");
  check_argument(from.empty() || !has_table_files(), "--from: ", path,
                 " has tables in files, which only a run from its start can make again");
  if (from.empty()) {
    // Removed as soon as the files in it are open: nothing is left of them, however this ends.
    std::optional<ScratchFolder> tables;
    if (has_table_files()) tables.emplace();
    session_ = Session::replay(file_, path, corpus_, tables ? tables->path() : "");
  } else {
    session_ = Session::resume(read_safetensors(from), from, corpus_);
    session_->set_options(options_);  // changed on the way, perhaps
  }
  first_ = session_->run().steps();
  check_argument(first_ < last_, "--from: is at step ", first_, ", and RUN at step ", last_);
}

std::vector<std::string> ReplayedRun::table_files() const {
  std::vector<std::string> files;
  for (const std::string& table : options_.table_paths()) {
    files.push_back(table);
    const std::filesystem::path folder = std::filesystem::absolute(table).parent_path();
    const std::string name = std::filesystem::path(table).filename();
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string other = entry.path().filename();
      if (other.starts_with(name + ".undo-") || other.starts_with(name + ".rank"))
        files.push_back(entry.path());
    }
  }
  return files;
}

bool ReplayedRun::has_history() const {
  return first_ == 0 && !has_table_files() && file_.contains("watched.rows.first_step") &&
         file_.count("watched.rows.first_step") == 0;
}

void ReplayedRun::load(RowHistory& rows) {
  rows.load_state_dict(file_.part("watched.rows"));
  session_->run().load_state_dict(file_);
}

void ReplayedRun::train() {
  session_->run().train(last_);
  for (Parameter* parameter : session_->model().parameters()) {
    if (!parameter->is_in_memory()) continue;
    const Tensor& now = parameter->value();
    const Tensor then = file_.tensor("model." + parameter->name(), parameter->shape());
    const auto same_bits = [](real a, real b) { return std::memcmp(&a, &b, sizeof a) == 0; };
    const auto place =
        static_cast<std::size_t>(std::ranges::mismatch(now, then, same_bits).in1 - now.begin());
    check_runtime(
        place == now.size(), path_, ": the run that was trained again ends at other values of row ",
        place * now.shape()[0] / std::max<std::size_t>(now.size(), 1), " of ", parameter->name(),
        "; if it began from other weights, or if its options were changed on the way, "
        "give a checkpoint after that as --from");
  }
}

std::string ReplayedRun::outcome() const {
  return concat("trained again, it ends at the same values, bit for bit",
                has_table_files() ? "; its tables in files are not compared" : "");
}

}  // namespace rowgrad
