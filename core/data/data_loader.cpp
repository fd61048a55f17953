#include <algorithm>
#include <numeric>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/data_loader.hpp>

namespace rowgrad {

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  check_argument(dataset_ != nullptr, "DataLoader: there is no dataset");
  const auto batch = static_cast<std::ptrdiff_t>(options.batch);  // a negative int became a size
  check_argument(batch >= 1, "DataLoader: batch is ", batch, ", expected at least 1");
  const std::size_t examples = dataset_->size();
  const std::size_t rest = options.drop_last ? 0 : examples % options.batch;
  size_ = examples / options.batch + (rest > 0);
  check_argument(size_ > 0, "DataLoader: ", examples, " examples do not fill one batch of ",
                 options.batch, ", and drop_last leaves a shorter one out");
}

std::size_t DataLoader::rows(std::size_t batch) const {
  check_argument(batch < size_, "DataLoader::rows: there is no batch ", batch, " in an epoch of ",
                 size_, " batches");
  return std::min(options_.batch, dataset_->size() - batch * options_.batch);
}

// What batches depend on besides the position.
Checkpoint DataLoader::data() const {
  if (!description_) description_ = dataset_->description();
  Checkpoint data = *description_;
  for (const std::string& name : data.names()) data.integer(name);  // throws for another kind
  data.put("batch", options_.batch);
  data.put("drop_last", options_.drop_last);
  data.put("shuffle", options_.shuffle);
  data.put("generator", options_.generator != nullptr);
  if (options_.shuffle && options_.generator == nullptr)
    data.put("shuffle_seed", static_cast<std::int64_t>(options_.seed));
  if (options_.shuffle && dataset_->size() > ExampleOrder::kMaxListed)
    data.put("keyed_order", true);  // versions up to 0.2.0 had a list
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
    check_argument(
        saved.names() == present.names(),
        "DataLoader::load_state_dict: the state is of a loader with data of another kind");
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

DataLoader::Iterator DataLoader::begin(const BatchShard& shard) {
  check_argument(shard.begin < shard.end && shard.end <= shard.count, "DataLoader: the shard is [",
                 shard.begin, ", ", shard.end, ") of ", shard.count,
                 ", expected a range that is not empty");
  dataset_->check_unchanged();
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
  std::optional<ExampleOrder> order;
  if (options_.shuffle) order.emplace(dataset_->size(), seed);
  position_ = start;
  ++loop_;
  return {*this, shard, std::move(order)};
}

DataLoader::Iterator::Iterator(DataLoader& loader, const BatchShard& shard,
                               std::optional<ExampleOrder> order)
    : loader_(&loader),
      loop_(loader.loop_),
      shard_(shard),
      order_(std::move(order)),
      next_(loader.position_) {
  ++*this;
}

// This shard's rows of the batch that comes next.
Batch DataLoader::Iterator::read() const {
  const IndexRange rows = shard_.rows(loader_->rows(next_.batch));
  std::vector<std::int64_t> examples(rows.size());
  std::iota(examples.begin(), examples.end(),
            static_cast<std::int64_t>(next_.batch * loader_->options_.batch + rows.begin));
  if (order_)
    for (std::int64_t& example : examples) example = (*order_)[static_cast<std::size_t>(example)];
  Batch batch = loader_->dataset_->batch(examples);
  check_argument(batch.rows() == examples.size(), "DataLoader: the data gave ", batch.rows(),
                 " examples, expected ", examples.size());
  return batch;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_ = {};  // whose memory the next one gets
  const std::size_t size = loader_->size_;
  if (at_end_ = next_.batch == size; at_end_) return *this;
  batch_ = read();
  ++next_.batch;
  if (loop_ != loader_->loop_) return *this;
  loader_->loaded_ = false;
  loader_->position_ = next_.batch < size ? next_ : Position{next_.epoch + 1, 0};
  return *this;
}

}  // namespace rowgrad
