#include <algorithm>
#include <numeric>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

// The finaliser of SplitMix64 (Steele, Lea & Flood 2014): each bit of the input changes about half
// of the bits of the output.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

Batch make_batch(std::size_t rows, std::size_t context) {
  const Shape shape = {rows, context};
  element_count(shape, "DataLoader");
  return {Ids::from_shape(shape), Ids::from_shape(shape)};
}

}  // namespace

DataLoader::DataLoader(TokenWindows windows, const DataLoaderOptions& options)
    : windows_(std::move(windows)), options_(options) {
  check_argument(options.batch >= 1, "DataLoader: batch is ", options.batch,
                 ", expected at least 1");
  const std::size_t full = windows_.size() / options.batch;
  const std::size_t rest = options.drop_last ? 0 : windows_.size() % options.batch;
  size_ = full + (rest > 0);
  check_argument(size_ > 0, "DataLoader: ", windows_.size(), " windows do not fill one batch of ",
                 options.batch, ", and drop_last leaves a shorter one out");
  order_.resize(windows_.size());
  std::iota(order_.begin(), order_.end(), 0);
  full_ = make_batch(full > 0 ? options.batch : 0, windows_.context());
  short_ = make_batch(rest, windows_.context());
}

Checkpoint DataLoader::state_dict() const {
  Checkpoint state;
  state.put("epoch", position_.epoch);
  state.put("batch", position_.batch);
  if (options_.generator != nullptr) state.put("order_seed", order_seed_);
  return state;
}

void DataLoader::load_state_dict(const Checkpoint& state) {
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

void DataLoader::start_epoch() {
  Position start = position_;
  if (!loaded_ && start.batch > 0) start = {start.epoch + 1, 0};
  std::uint64_t seed = scramble(scramble(options_.seed) + start.epoch);
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

const Batch& DataLoader::next_batch() {
  const std::size_t first = position_.batch * options_.batch;
  const std::size_t rows = std::min(options_.batch, windows_.size() - first);
  Batch& batch = rows == options_.batch ? full_ : short_;
  const std::size_t context = windows_.context();
  for (std::size_t row = 0; row < rows; ++row) {
    const auto window = static_cast<std::size_t>(order_[first + row]);
    std::ranges::copy(windows_.inputs(window), batch.inputs.data() + row * context);
    std::ranges::copy(windows_.targets(window), batch.targets.data() + row * context);
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

}  // namespace rowgrad
