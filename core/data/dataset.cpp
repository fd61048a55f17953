#include <algorithm>
#include <optional>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/dataset.hpp>

namespace rowgrad {

std::size_t Batch::rows() const {
  std::optional<std::size_t> rows;
  const auto count = [&](const auto& array) {
    check_argument(array.dimension() > 0 && array.shape(0) == rows.value_or(array.shape(0)),
                   "Batch: an array has shape ", bracketed(array.shape()), ", expected ",
                   rows ? concat(*rows) : "some", " rows");
    rows = array.shape(0);
  };
  std::ranges::for_each(ids, count);
  std::ranges::for_each(tensors, count);
  check_argument(rows.has_value(), "Batch: there are no arrays");
  return *rows;
}

const Ids& Batch::of_text(std::size_t array) const {
  check_argument(ids.size() == 2, "Batch: there are ", ids.size(),
                 " arrays of ids, expected inputs and targets of a text");
  return ids[array];
}

Batch Batch::rows(std::span<const std::int64_t> indices) const {
  const std::size_t count = rows();
  for (const std::int64_t i : indices)
    check_argument(i >= 0 && static_cast<std::size_t>(i) < count, "Batch: row ", i,
                   " is outside the ", count);
  const auto copies_of = [&]<class Array>(const Array& array) {
    auto shape = array.shape();
    shape[0] = indices.size();
    Array copies = Array::from_shape(shape);
    const std::size_t width = array.size() / std::max<std::size_t>(count, 1);
    for (std::size_t i = 0; i < indices.size(); ++i)
      std::copy_n(array.data() + static_cast<std::size_t>(indices[i]) * width, width,
                  copies.data() + i * width);
    return copies;
  };
  Batch batch;
  for (const Ids& array : ids) batch.ids.push_back(copies_of(array));
  for (const Tensor& array : tensors) batch.tensors.push_back(copies_of(array));
  return batch;
}

Checkpoint Dataset::description() const {
  Checkpoint description;
  description.put("examples", size());
  return description;
}

TensorDataset::TensorDataset(Batch examples)
    : examples_(std::move(examples)), size_(examples_.rows()) {
  check_argument(size_ > 0, "TensorDataset: there are no examples");
}

Batch TensorDataset::batch(std::span<const std::int64_t> examples) const {
  return examples_.rows(examples);
}

Checkpoint TensorDataset::description() const {
  Checksum sum;
  const auto add = [&](const auto& array) {
    for (const std::size_t extent : array.shape()) sum.add(extent);
    sum.add_bytes(std::as_bytes(std::span(array.data(), array.size())));
  };
  std::ranges::for_each(examples_.ids, add);
  std::ranges::for_each(examples_.tensors, add);
  Checkpoint description = Dataset::description();
  description.put("checksum", static_cast<std::int64_t>(sum.value()));
  return description;
}

}  // namespace rowgrad
