#include <algorithm>
#include <functional>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {

Parameter::Parameter(std::string name, Tensor value)
    : name_(std::move(name)), value_(std::move(value)), shape_(value_.shape()) {
  element_count(shape_, name_);
}

Parameter::Parameter(ParameterOwner& owner, std::string_view name, Tensor value)
    : Parameter(std::string(name), std::move(value)) {
  owner.adopt(name, *this);
}

Parameter::Parameter(std::string name, TableFile& file)
    : name_(std::move(name)),
      value_(empty({0})),
      shape_(file.shape()),
      file_(&file),
      lease_(file.lease()),
      whole_(false) {}

Parameter::Parameter(ParameterOwner& owner, std::string_view name, TableFile& file)
    : Parameter(std::string(name), file) {
  owner.adopt(name, *this);
}

Parameter::~Parameter() {
  if (keeper_ != nullptr) keeper_->abandon();
  for (ParameterUser* user : users_) user->forget(*this);
}

void Parameter::check_in_memory(const char* function) const {
  check_state(file_ == nullptr, name_, ": ", function,
              "() needs all values in memory, but those of ", "this table are in ",
              file_ == nullptr ? "" : file_->path().string());
}

void Parameter::check_not_owed() const {
  check_state(!file_->owed(), name_, ": rows in ", file_->path().string(),
              " are owed steps of an optimizer; load its state before they are used");
}

void Parameter::read_whole() const {
  check_in_memory("value");
  if (value_.shape() != shape_) value_ = empty(shape_);
  keeper_->read(value_.data());
  whole_ = true;
}

Tensor Parameter::copy() const {
  if (whole_) return value_;
  check_in_memory("copy");
  Tensor result = empty(shape_);
  keeper_->read(result.data());
  return result;
}

void Parameter::check_rows(std::span<const std::int32_t> ids) const {
  kernels::check_table(name_, shape_);
  kernels::check_ids(name_, ids, {ids.size()}, shape_[0]);
}

Tensor Parameter::rows(std::span<const std::int32_t> ids) const {
  check_rows(ids);
  return checked_rows(ids);
}

Tensor Parameter::checked_rows(std::span<const std::int32_t> ids, const Tensor* added) const {
  const std::size_t width = shape_[1];
  if (ids.empty() || width == 0) added = nullptr;
  Tensor result = empty({ids.size(), width});
  if (whole_) {
    kernels::gather_rows(value_.data(), width, ids, result.data(), added);
  } else {
    if (keeper_ != nullptr) {
      keeper_->read_rows(ids, result.data());
    } else {
      read_file(ids, result.data());
    }
    if (added != nullptr) kernels::add_rows(result.data(), width, ids.size(), *added);
  }
  return result;
}

void Parameter::read_file(std::span<const std::int32_t> ids, real* out) const {
  check_not_owed();
  file_->bring_in(ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    file_->read(static_cast<std::size_t>(ids[i]), {out + i * shape_[1], shape_[1]});
}

std::span<real> Parameter::mutable_values() {
  check_in_memory("mutable_values");
  reclaim();
  ++version_;
  return {value_.data(), value_.size()};
}

void Parameter::assign(Tensor value) {
  check_argument(value.shape() == shape_, name_, ": the new value has shape ",
                 bracketed(value.shape()), ", expected ", bracketed(shape_));
  check_in_memory("assign");
  reclaim();
  value_ = std::move(value);
  ++version_;
}

void Parameter::assign_rows(std::span<const std::int32_t> ids, const Tensor& values) {
  check_rows(ids);
  const auto wrong = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>());
  if (wrong != ids.end())
    check_argument(false, name_, ": id ", wrong[1], " at [", wrong - ids.begin() + 1, "] follows ",
                   wrong[0], ", expected strictly rising ids");
  const std::size_t width = shape_[1];
  check_argument(values.shape() == Shape({ids.size(), width}), name_, ": the values have shape ",
                 bracketed(values.shape()), ", expected [", ids.size(), ", ", width, "]");
  if (keeper_ != nullptr) {
    keeper_->write_rows(ids, values.data());
    note_change(*keeper_);
    return;
  }
  if (file_ != nullptr) {
    check_not_owed();
    file_->begin_change(ids);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::size_t>(ids[i]);
    std::copy_n(values.data() + i * width, width,
                file_ != nullptr ? file_->row(row) : value_.data() + row * width);
  }
  ++version_;
}

Tensor Parameter::lend(LazyRows& keeper, std::optional<Tensor> copy) {
  reclaim();
  keeper_ = &keeper;
  whole_ = given_out_;
  if (given_out_) return std::move(copy).value();
  Tensor own = std::exchange(value_, empty({0}));
  return copy ? *std::move(copy) : std::move(own);
}

void Parameter::reclaim() {
  if (keeper_ == nullptr) return;
  value_ = std::exchange(keeper_, nullptr)->release();
  whole_ = file_ == nullptr;
}

void Parameter::note_change(const LazyRows& keeper) {
  check_state(keeper_ == &keeper, name_, ": it is not lent to whoever changed it");
  ++version_;
  whole_ = false;
}

void Parameter::restore(std::string_view mark) {
  check_state(file_ != nullptr, name_, ": its values are in memory, and have no marks");
  file_->restore(mark, lease_);
  reclaim();  // not before the table is back: what the keeper knows is of the rows as they were
  ++version_;
}

void Parameter::add_gradient(Gradient gradient) {
  prepare_gradient(gradient);
  add_prepared_gradient(std::move(gradient));
}

void Parameter::prepare_gradient(Gradient& gradient) const {
  check_argument(gradient.is_none() || gradient.shape() == shape_, name_, ": a gradient of shape ",
                 bracketed(gradient.is_none() ? Shape() : gradient.shape()),
                 " was given, expected ", bracketed(shape_));
  gradient_.prepare_sum(gradient);
}

}  // namespace rowgrad
