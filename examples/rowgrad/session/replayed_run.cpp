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
  check_argument(last_ > 0, path, ": the run has made 0 steps, expected at least 1");
  check_argument(
      from.empty() || !has_table_files(), "--from: ", path,
      " has tables in files (--ngram-file) and can only be trained again from its start");
  if (from.empty()) {
    // The folder is removed once its files are open, so no file is left, however the program ends.
    std::optional<ScratchFolder> tables;
    if (has_table_files()) tables.emplace();
    session_ = Session::replay(file_, path, corpus_, tables ? tables->path() : "");
  } else {
    session_ = Session::resume(read_safetensors(from), from, corpus_);
    session_->set_options(options_);  // options may have changed after `from`
  }
  first_ = session_->run().steps();
  check_argument(first_ < last_, "--from is at step ", first_, ", but RUN is at step ", last_,
                 "; pass an earlier checkpoint");
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
    const auto index =
        static_cast<std::size_t>(std::ranges::mismatch(now, then, same_bits).in1 - now.begin());
    check_runtime(
        index == now.size(), path_, ": training again gave different values in row ",
        index * now.shape()[0] / std::max<std::size_t>(now.size(), 1), " of ", parameter->name(),
        "; if the run started from other weights, or its options changed later, pass a later "
        "checkpoint as --from");
  }
}

std::string ReplayedRun::outcome() const {
  return concat("trained again to the same values, bit for bit",
                has_table_files() ? "; tables in files are not compared" : "");
}

}  // namespace rowgrad
