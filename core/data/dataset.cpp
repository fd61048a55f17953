#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/dataset.hpp>

namespace rowgrad {

namespace {

// Returns the end of bag `row` in the ids.
std::size_t end_of(const RaggedIds& bags, std::size_t row) {
  return row + 1 < bags.offsets.size() ? static_cast<std::size_t>(bags.offsets.data()[row + 1])
                                       : bags.ids.size();
}

// Returns the offset of a bag that follows `ids` ids.
std::int32_t offset_after(std::size_t ids) {
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  check_argument(ids <= std::size_t{kMax}, "Batch: bags have ", ids, " ids, expected at most ",
                 kMax);
  return static_cast<std::int32_t>(ids);
}

void check_offsets(const RaggedIds& bags) {
  check_argument(bags.ids.dimension() == 1 && bags.offsets.dimension() == 1,
                 "Batch: bags have ids of shape ", bracketed(bags.ids.shape()),
                 " and offsets of shape ", bracketed(bags.offsets.shape()),
                 ", expected one axis each");
  const std::int32_t count = offset_after(bags.ids.size());
  check_argument(count == 0 || bags.offsets.size() > 0, "Batch: bags have ", count,
                 " ids but no offsets, expected one offset per bag");
  for (std::size_t i = 0; i < bags.offsets.size(); ++i) {
    const std::int32_t least = i == 0 ? 0 : bags.offsets.data()[i - 1];
    const std::int32_t most = i == 0 ? 0 : count, offset = bags.offsets.data()[i];
    check_argument(offset >= least && offset <= most, "Batch: offset ", i, " of bags is ", offset,
                   ", expected ", least, " to ", most);
  }
}

// Returns copies of the bags `indices`, in this order.
RaggedIds copies_of_bags(const RaggedIds& bags, std::span<const std::int64_t> indices) {
  std::vector<std::int32_t> offsets;
  std::size_t count = 0;
  const auto bag = [&](std::int64_t index) {
    const auto row = static_cast<std::size_t>(index);
    const auto begin = static_cast<std::size_t>(bags.offsets.data()[row]);
    return std::span(bags.ids.data() + begin, end_of(bags, row) - begin);
  };
  for (const std::int64_t index : indices) {
    offsets.push_back(offset_after(count));
    count += bag(index).size();
  }
  offset_after(count);  // throws before too many ids are allocated
  Ids ids = Ids::from_shape({count});
  std::int32_t* to = ids.data();
  for (const std::int64_t index : indices) to = std::ranges::copy(bag(index), to).out;
  return {std::move(ids), to_ids(offsets)};
}

}  // namespace

std::size_t Batch::rows() const {
  std::optional<std::size_t> rows;
  const auto count = [&](const auto& array) {
    check_argument(array.dimension() > 0 && array.shape(0) == rows.value_or(array.shape(0)),
                   "Batch: an array has shape ", bracketed(array.shape()), ", expected ",
                   rows ? concat(*rows, " rows") : "at least one axis",
                   rows ? "; ids of different lengths per row belong in Batch::bags" : "");
    rows = array.shape(0);
  };
  std::ranges::for_each(ids, count);
  std::ranges::for_each(tensors, count);
  for (const RaggedIds& each : bags) {
    count(each.offsets);
    check_offsets(each);
  }
  check_argument(rows.has_value(), "Batch: there are no arrays, expected at least one");
  return *rows;
}

const Ids& Batch::window_ids(std::size_t array) const {
  check_argument(ids.size() == 2, "Batch: there are ", ids.size(),
                 " arrays of ids, expected two: inputs and targets");
  return ids[array];
}

Batch Batch::select(std::span<const std::int64_t> indices) const {
  return copies_of(indices, rows());
}

Batch Batch::copies_of(std::span<const std::int64_t> indices, std::size_t count) const {
  for (const std::int64_t i : indices)
    check_argument(i >= 0 && static_cast<std::size_t>(i) < count, "Batch: row ", i,
                   " is out of range: the batch has ", count, " rows");
  const auto copies = [&]<class Array>(const Array& array) {
    auto shape = array.shape();
    shape[0] = indices.size();
    Array chosen = Array::from_shape(shape);
    const std::size_t width = array.size() / std::max<std::size_t>(count, 1);
    for (std::size_t i = 0; i < indices.size(); ++i)
      std::copy_n(array.data() + static_cast<std::size_t>(indices[i]) * width, width,
                  chosen.data() + i * width);
    return chosen;
  };
  Batch batch{.shared = shared};
  for (const Ids& array : ids) batch.ids.push_back(copies(array));
  for (const Tensor& array : tensors) batch.tensors.push_back(copies(array));
  for (const RaggedIds& each : bags) batch.bags.push_back(copies_of_bags(each, indices));
  return batch;
}

Batch Dataset::draw(std::span<const std::int64_t> examples, Random& /*random*/) const {
  return batch(examples);
}

StateDict Dataset::description() const {
  StateDict description;
  description.put("examples", size());
  return description;
}

TensorDataset::TensorDataset(Batch examples)
    : examples_(std::move(examples)), size_(examples_.rows()) {
  check_argument(size_ > 0, "TensorDataset: there are no examples, expected at least one");
}

Batch TensorDataset::batch(std::span<const std::int64_t> examples) const {
  return examples_.copies_of(examples, size_);
}

StateDict TensorDataset::description() const {
  Checksum sum;
  const auto add = [&](const auto& array) {
    for (const std::size_t extent : array.shape()) sum.add(extent);
    sum.add_bytes(std::as_bytes(std::span(array.data(), array.size())));
  };
  std::ranges::for_each(examples_.ids, add);
  std::ranges::for_each(examples_.tensors, add);
  std::ranges::for_each(examples_.shared, add);
  for (const RaggedIds& bags : examples_.bags) {
    add(bags.ids);
    add(bags.offsets);
  }
  StateDict description = Dataset::description();
  description.put("checksum", static_cast<std::int64_t>(sum.value()));
  return description;
}

}  // namespace rowgrad
