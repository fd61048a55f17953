#include <algorithm>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {

DataLoader::DataLoader(TokenWindows windows, const DataLoaderOptions& options)
    : windows_(std::move(windows)), options_(options) {
  check_argument(options.batch >= 1, "DataLoader: batch is ", options.batch,
                 ", expected at least 1");
  const std::size_t full = windows_.size() / options.batch;
  const std::size_t rest = options.drop_last ? 0 : windows_.size() % options.batch;
  size_ = full + (rest > 0);
  check_argument(size_ > 0, "DataLoader: ", windows_.size(), " windows do not fill one batch of ",
                 options.batch, ", and drop_last leaves a shorter one out");
  element_count({std::min(options.batch, windows_.size()), windows_.context()}, "DataLoader");
  set_shard(options.shard);
}

void DataLoader::set_shard(const BatchShard& shard) {
  check_argument(shard.begin < shard.end && shard.end <= shard.count, "DataLoader: the shard is [",
                 shard.begin, ", ", shard.end, ") of ", shard.count,
                 ", expected a range that is not empty");
  options_.shard = shard;
}

// Those of the present shard, unless they are there.
void DataLoader::make_batches() {
  const auto make = [&](Batch& batch, std::size_t whole) {
    const Shape shape{options_.shard.rows(whole).size(), windows_.context()};
    if (batch.targets.shape() != shape) batch = {Ids::from_shape(shape), Ids::from_shape(shape)};
  };
  make(full_, windows_.size() < options_.batch ? 0 : options_.batch);
  make(short_, options_.drop_last ? 0 : windows_.size() % options_.batch);
}

std::size_t DataLoader::rows(std::size_t batch) const {
  check_argument(batch < size_, "DataLoader::rows: there is no batch ", batch, " in an epoch of ",
                 size_, " batches");
  return std::min(options_.batch, windows_.size() - batch * options_.batch);
}

std::size_t DataLoader::window_at(std::size_t i) const {
  return order_.empty() ? i : static_cast<std::size_t>(order_[i]);
}

// What batches depend on besides the position.
Checkpoint DataLoader::data() const {
  Checkpoint data;
  data.put("windows", windows_.size());
  data.put("context", windows_.context());
  data.put("stride", windows_.stride());
  data.put("batch", options_.batch);
  data.put("drop_last", options_.drop_last);
  data.put("shuffle", options_.shuffle);
  data.put("generator", options_.generator != nullptr);
  if (options_.shuffle && options_.generator == nullptr)
    data.put("shuffle_seed", static_cast<std::int64_t>(options_.seed));
  if (!checksum_) checksum_ = windows_.checksum();
  data.put("ids_checksum", static_cast<std::int64_t>(*checksum_));
  return data;
}

Checkpoint DataLoader::state_dict() const {
  Checkpoint state;
  state.put("data", data());
  state.put("epoch", position_.epoch);
  state.put("batch", position_.batch);
  if (options_.generator != nullptr) state.put("order_seed", order_seed_);
  return state;
}

void DataLoader::load_state_dict(const Checkpoint& state) {
  if (const Checkpoint saved = state.part("data"); !saved.empty()) {
    const Checkpoint present = data();
    for (const std::string& name : present.names())
      check_argument(saved.integer(name) == present.integer(name),
                     "DataLoader::load_state_dict: the state is of a loader with ", name, ' ',
                     saved.integer(name), ", this one has ", present.integer(name));
  }
  const Position position = {.epoch = state.count("epoch"), .batch = state.count("batch")};
  check_argument(position.batch < size_, "DataLoader::load_state_dict: there is no batch ",
                 position.batch, " in an epoch of ", size_, " batches");
  if (options_.generator != nullptr) order_seed_ = state.count("order_seed");
  position_ = position;
  loaded_ = true;
}

void DataLoader::rewind() {
  position_ = {};
  loaded_ = true;
}

void DataLoader::continue_epoch() { loaded_ = true; }

void DataLoader::start_epoch() {
  windows_.check_unchanged();
  make_batches();
  Position start = position_;
  if (!loaded_ && start.batch > 0) start = {start.epoch + 1, 0};
  std::uint64_t seed = splitmix64(splitmix64(options_.seed) + start.epoch);
  if (Random* generator = options_.generator; generator != nullptr && start.batch == 0) {
    generator->bits();
    generator->bits();
    if (options_.shuffle) {
      generator->bits();
      order_seed_ = generator->bits();  // of 64 bits, a seed is the lower half
    }
  }
  if (options_.generator != nullptr) seed = order_seed_;
  if (options_.shuffle)
    order_ = Random(seed).permutation(static_cast<std::int64_t>(windows_.size()));
  position_ = start;
  loaded_ = false;
}

// The windows of this shard's rows of a batch, by their numbers in the order of the epoch.
IndexRange DataLoader::windows_of(std::size_t batch) const {
  const std::size_t first = batch * options_.batch;
  const IndexRange rows = options_.shard.rows(this->rows(batch));
  return {first + rows.begin, first + rows.end};
}

const Batch& DataLoader::next_batch() {
  const IndexRange windows = windows_of(position_.batch);
  Batch& batch = rows(position_.batch) == options_.batch ? full_ : short_;
  const std::size_t context = windows_.context();
  for (std::size_t row = 0; row < windows.size(); ++row) {
    const std::size_t window = window_at(windows.begin + row);
    windows_.read_inputs(window, std::span(batch.inputs.data() + row * context, context));
    windows_.read_targets(window, std::span(batch.targets.data() + row * context, context));
  }
  ++position_.batch;
  if (position_.batch == size_) position_ = {position_.epoch + 1, 0};
  return batch;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_ = last_ ? nullptr : &loader_->next_batch();
  last_ = loader_->position_.batch == 0;
  return *this;
}

Ids DataLoader::Iterator::next_inputs() const {
  const DataLoader& loader = *loader_;
  const bool is_there = batch_ != nullptr && !last_;
  const IndexRange windows = is_there ? loader.windows_of(loader.position_.batch) : IndexRange{};
  const std::size_t context = loader.windows_.context();
  Ids inputs = Ids::from_shape({windows.size(), context});
  for (std::size_t row = 0; row < windows.size(); ++row)
    loader.windows_.read_inputs(loader.window_at(windows.begin + row),
                                std::span(inputs.data() + row * context, context));
  return inputs;
}

}  // namespace rowgrad
