#include <algorithm>
#include <numeric>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/data_loader.hpp>

namespace rowgrad {

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  check_argument(dataset_ != nullptr, "DataLoader: dataset is null");
  const auto batch = static_cast<std::ptrdiff_t>(options.batch);  // shows -1 as negative
  check_argument(batch >= 1, "DataLoader: batch is ", batch, ", expected at least 1");
  const std::size_t examples = dataset_->size();
  const std::size_t rest = options.drop_last ? 0 : examples % options.batch;
  batches_ = examples / options.batch + (rest > 0);
}

std::size_t DataLoader::rows(std::size_t batch) const {
  check_argument(batch < batches_, "DataLoader: batch ", batch, " is out of range: an epoch has ",
                 batches_, " batches");
  return std::min(options_.batch, dataset_->size() - batch * options_.batch);
}

StateDict DataLoader::description() const {
  std::call_once(description_->once, [&] { description_->of_data = dataset_->description(); });
  StateDict all = description_->of_data;
  for (const std::string& name : all.names()) all.integer(name);  // throws if it is not an integer
  all.put("batch", options_.batch);
  all.put("drop_last", options_.drop_last);
  all.put("shuffle", options_.shuffle);
  all.put("draw_order", options_.draw_order);
  if (!options_.draw_order) all.put("seed", static_cast<std::int64_t>(options_.seed));
  return all;
}

StateDict DataLoader::state_dict(const Progress& progress) const {
  StateDict state;
  state.put("data", description());
  state.put("epoch", progress.epoch);
  state.put("batch", progress.batch);
  if (options_.draw_order) state.put("order_seed", progress.order_seed);
  return state;
}

Progress DataLoader::progress(const StateDict& state) const {
  const StateDict saved = state.part("data"), present = description();
  for (const std::string& name : present.names())
    check_argument(saved.integer(name) == present.integer(name),
                   "DataLoader: the state is from a loader with ", name, ' ', saved.integer(name),
                   ", expected ", present.integer(name));
  check_argument(saved.names() == present.names(),
                 "DataLoader: the state is from a loader of another kind of dataset");
  Progress progress{.epoch = state.count("epoch"), .batch = state.count("batch")};
  check_argument(progress.batch <= batches_, "DataLoader: batch ", progress.batch,
                 " is out of range: an epoch has ", batches_, " batches");
  progress.order_seed = options_.draw_order ? state.count("order_seed") : seed_of(progress.epoch);
  return progress;
}

std::uint64_t DataLoader::seed_of(std::size_t epoch) const {
  return splitmix64(splitmix64(options_.seed) + epoch);
}

Progress DataLoader::start(std::size_t epoch, Random& random) const {
  if (!options_.draw_order) return {.epoch = epoch, .order_seed = seed_of(epoch)};
  std::uint64_t seed = 0;  // PyTorch draws 64 bits and uses only the lower half
  for (int word = 0; word < (options_.shuffle ? 4 : 2); ++word) seed = random.bits();
  return {.epoch = epoch, .order_seed = seed};
}

DataLoader::Epoch DataLoader::epoch(std::size_t number, std::size_t from_batch,
                                    const BatchSlice& slice) const {
  check_argument(!options_.draw_order,
                 "DataLoader::epoch: draw_order is set, expected a Progress returned by start()");
  return epoch({.epoch = number, .batch = from_batch, .order_seed = seed_of(number)}, slice);
}

DataLoader::Epoch DataLoader::epoch(const Progress& progress, const BatchSlice& slice) const {
  check_argument(progress.batch <= batches_, "DataLoader: batch ", progress.batch,
                 " is out of range: an epoch has ", batches_, " batches");
  dataset_->check_unchanged();
  return {*this, progress, slice};
}

DataLoader::Epoch::Epoch(DataLoader loader, const Progress& start, const BatchSlice& slice)
    : loader_(std::move(loader)), start_(start), slice_(slice) {
  if (loader_.options_.shuffle) order_.emplace(loader_.dataset_->size(), start.order_seed);
}

DataLoader::Iterator DataLoader::Epoch::begin() const { return Iterator(*this); }

Batch DataLoader::Epoch::read(std::size_t batch, const BatchSlice& slice) const {
  check_argument(slice.index < slice.count, "DataLoader: slice.index is ", slice.index,
                 ", expected less than slice.count, ", slice.count);
  const IndexRange rows = slice.of(loader_.rows(batch));
  std::vector<std::int64_t> examples(rows.size());
  std::iota(examples.begin(), examples.end(),
            static_cast<std::int64_t>(batch * loader_.options_.batch + rows.begin));
  if (order_)
    for (std::int64_t& example : examples) example = (*order_)[static_cast<std::size_t>(example)];
  Random random(splitmix64(splitmix64(splitmix64(start_.order_seed) + batch) + slice.index));
  Batch read = loader_.dataset_->draw(examples, random);
  check_argument(read.rows() == examples.size(), "DataLoader: the dataset returned ", read.rows(),
                 " examples, expected ", examples.size());
  return read;
}

void DataLoader::Iterator::read() {
  batch_ = {};  // frees memory for the next batch
  if (number_ < epoch_->loader_.batches_) batch_ = epoch_->read(number_);
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  ++number_;
  read();
  return *this;
}

}  // namespace rowgrad
