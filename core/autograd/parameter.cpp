#include <algorithm>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {

Parameter::Parameter(std::string name, Tensor value)
    : name_(std::move(name)), source_(rows_in_memory(std::move(value))) {
  element_count(shape(), name_);
}

Parameter::Parameter(std::string name, std::unique_ptr<RowSource> rows)
    : name_(std::move(name)), source_(std::move(rows)) {
  check_argument(source_ != nullptr, name_, ": the row source is null");
  rename(name_);
}

Parameter::~Parameter() {
  for (ParameterUser* user : users_) user->forget(*this);
}

Tensor& Parameter::whole(const char* function) const {
  if (Tensor* const all = source_->dense()) return *all;
  throw std::logic_error(concat(name_, ": ", function, "() needs all values in memory, but the ",
                                "rows of this table are in ", source_->location()));
}

void Parameter::throw_not_in_memory(const std::string& reason) const {
  throw std::invalid_argument(concat(reason, ", which needs all rows in memory, but the rows of ",
                                     name_, " are in ", source_->location()));
}

void Parameter::copy_whole() const {
  whole("value");
  if (up_to_date_.shape() != shape()) up_to_date_ = empty(shape());
  deferred_->gather_all(up_to_date_.data());
  is_copied_ = true;
}

Tensor Parameter::copy() const {
  const Tensor& stored = whole("copy");
  if (deferred_ == nullptr || is_copied_) return deferred_ == nullptr ? stored : up_to_date_;
  Tensor result = empty(shape());
  deferred_->gather_all(result.data());
  return result;
}

void Parameter::check_rows(std::span<const std::int32_t> ids) const {
  kernels::check_table(name_, shape());
  kernels::check_ids(name_, ids, {ids.size()}, shape()[0]);
}

Tensor Parameter::rows(std::span<const std::int32_t> ids) const {
  check_rows(ids);
  return gathered_rows(ids);
}

void Parameter::prefetch(std::span<const std::int32_t> ids) const {
  check_rows(ids);
  source_->prefetch(ids);
}

Tensor Parameter::gathered_rows(std::span<const std::int32_t> ids, const Tensor* added) const {
  const std::size_t width = shape()[1];
  if (ids.empty() || width == 0) added = nullptr;
  Tensor result = empty({ids.size(), width});
  if (deferred_ == nullptr) {
    source_->check_up_to_date();
    source_->gather(ids, result.data(), added);
  } else if (is_copied_) {
    kernels::gather_rows(up_to_date_.data(), width, ids, result.data(), added);
  } else {
    deferred_->gather(ids, result.data(), added);
  }
  return result;
}

// --- Changes ------------------------------------------------------------------------------------

std::span<real> Parameter::mutable_values() {
  Tensor& values = whole("mutable_values");
  apply_deferred();
  increment_version();
  return {values.data(), values.size()};
}

void Parameter::assign(Tensor value) {
  check_argument(value.shape() == shape(), name_, ": the new value has shape ",
                 bracketed(value.shape()), ", expected ", bracketed(shape()));
  Tensor& values = whole("assign");
  end_deferred();
  values = std::move(value);
  increment_version();
}

void Parameter::assign_rows(std::span<const std::int32_t> ids, const Tensor& values) {
  check_rows(ids);
  const auto wrong = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>());
  if (wrong != ids.end())
    check_argument(false, name_, ": id ", wrong[1], " at [", wrong - ids.begin() + 1, "] follows ",
                   wrong[0], ", expected strictly increasing ids");
  const std::size_t width = shape()[1];
  check_argument(values.shape() == Shape({ids.size(), width}), name_, ": the values have shape ",
                 bracketed(values.shape()), ", expected [", ids.size(), ", ", width, "]");
  if (deferred_ != nullptr)
    deferred_->apply(ids);
  else
    source_->check_up_to_date();
  source_->scatter(ids, values.data());
  increment_version();
}

void Parameter::set_deferred(std::shared_ptr<DeferredUpdates> updates) {
  if (updates != deferred_) apply_deferred();
  deferred_ = std::move(updates);
  is_copied_ = false;
}

void Parameter::apply_deferred() {
  if (deferred_ == nullptr) return;
  deferred_->apply_all();
  discard_deferred();
  up_to_date_ = empty({0});
}

void Parameter::discard_deferred() {
  deferred_ = nullptr;
  is_copied_ = false;
}

// Ends the deferred steps before all values are replaced. If the optimizer still exists, its state
// must be brought up to date with the old values first.
void Parameter::end_deferred() {
  if (deferred_ != nullptr && deferred_->is_abandoned())
    discard_deferred();
  else
    apply_deferred();
}

void Parameter::increment_version() {
  ++version_;
  is_copied_ = false;
#if !defined(NDEBUG) || defined(ROWGRAD_ADDRESS_SANITIZER)
  up_to_date_ = empty({0});  // makes reads through old references fail
#endif
}

// --- Gradients ----------------------------------------------------------------------------------

void Parameter::add_gradient(Gradient gradient) {
  check_argument(gradient.is_none() || gradient.shape() == shape(), name_,
                 ": the gradient has shape ",
                 bracketed(gradient.is_none() ? Shape() : gradient.shape()), ", expected ",
                 bracketed(shape()));
  source_->check_takes_gradient();
  gradient_.add(std::move(gradient));
}

// --- Saving and loading -------------------------------------------------------------------------

StateDict::Value Parameter::saved() const {
  if (is_in_memory()) return copy();
  return source_->checkpoint_id();
}

void Parameter::check_saved(const StateDict& state, const std::string& name) const {
  if (is_in_memory())
    state.check_shape(name, shape());
  else
    source_->check_checkpoint(state.string(name));
}

void Parameter::load(const StateDict& state, const std::string& name) {
  if (is_in_memory()) {
    state.check_shape(name, shape());
    end_deferred();
    return state.copy_to(name, mutable_values());
  }
  source_->restore(state.string(name));
  discard_deferred();  // after restore(), which may throw; these steps were for the old rows
  increment_version();
}

}  // namespace rowgrad
