#include <algorithm>
#include <optional>
#include <utility>

#include <rowgrad/core/autograd/parameter_storage.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {
namespace {

class StatesInMemory final : public OptimizerStates {
 public:
  StatesInMemory(Tensor& values, const Owner& owner)
      : OptimizerStates(owner),
        values_(values),
        state_bits_(values.dimension() == 2 ? (values.shape()[0] + 63) / 64 : 0) {}

  bool lacks(const Needs& needs) const override {
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      if (needs.uses[i] && !arrays_[i]) return true;
    return false;
  }

  void ensure(const Needs& needs, bool sparse) override {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (!needs.uses[i] || arrays_[i]) continue;
      const auto start = static_cast<real>(needs.starts[i]);
      sparse = sparse && start == 0;
      arrays_[i] = sparse ? sparse_zeros(values_.shape()) : full(values_.shape(), start);
      if (!sparse) mark_all_rows();
    }
  }

  void mark_rows(std::span<const std::int32_t> ids) override { mark(ids); }
  void mark_all_rows() override { state_bits_ = {}; }

  void begin_steps() override {
    if (!steps_) steps_ = Steps::from_shape({values_.shape()[0]});
    BufferPool::clear(steps_->data(), steps_->size() * sizeof(std::uint64_t));
  }

  RowView view() override {
    RowView view;
    view.width = values_.dimension() == 2 ? values_.shape()[1] : 0;
    view.stride = view.width;
    view.first[0] = (loaded_ ? *loaded_ : values_).data();
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      if (arrays_[i]) view.first[i + 1] = arrays_[i]->data();
    if (steps_) view.steps = steps_->data();
    if (!state_bits_.empty()) view.state_bits = state_bits_.data();
    return view;
  }

  void save(Checkpoint& state) const override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (arrays_[i]) put_rows(state, std::string(owner_.names[i]), *arrays_[i]);
  }

  void load(const Checkpoint& state, const std::array<bool, kMostStates>& saved, bool) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (const std::string name(owner_.names[i]); saved[i]) {
        arrays_[i] = rows_in(state, name, values_.shape());
        if (state.contains(name))
          mark_all_rows();
        else
          mark(state.integers(name + ".rows"));
      }
  }

  void save_rows(Checkpoint& state) const override {
    put_rows(state, "values", values_);
    state.put("at", std::vector<std::int64_t>(steps_->begin(), steps_->end()));
  }

  void load_rows(const Checkpoint& state, std::uint64_t last, bool) override {
    loaded_ = rows_in(state, "values", values_.shape());
    const std::vector<std::int64_t> steps = state.integers("at");
    check_argument(steps.size() == values_.shape()[0], owner_.optimizer, "::load_state_dict: '",
                   owner_.parameter, ".lazy.at' has ", steps.size(), " numbers, expected ",
                   values_.shape()[0]);
    for (const std::int64_t step : steps)
      check_argument(step >= 0 && static_cast<std::uint64_t>(step) <= last, owner_.optimizer,
                     "::load_state_dict: '", owner_.parameter, ".lazy.at' has ", step,
                     ", expected a number from 0 to ", last);
    steps_ = Steps::from_shape({steps.size()});
    std::ranges::copy(steps, steps_->data());
  }

  void take_over() noexcept override {
    if (loaded_) values_ = *std::exchange(loaded_, std::nullopt);
  }

 private:
  using Steps = xt::xarray<std::uint64_t, xt::layout_type::row_major, PoolAllocator<std::uint64_t>>;

  void mark(const auto& rows) {
    if (state_bits_.empty()) return;
    for (const auto row : rows)
      state_bits_[static_cast<std::size_t>(row) / 64] |= std::uint64_t{1} << (row % 64);
  }

  Tensor& values_;
  std::array<std::optional<Tensor>, kMostStates> arrays_;
  std::optional<Steps> steps_;             // of each row, once steps have begun
  std::vector<std::uint64_t> state_bits_;  // see RowView; empty if all rows have states
  std::optional<Tensor> loaded_;
};

class ValuesInMemory final : public ParameterStorage {
 public:
  explicit ValuesInMemory(Tensor values)
      : ParameterStorage(values.shape()), values_(std::move(values)) {}

  Tensor* all() override { return &values_; }

  void read(std::span<const std::int32_t> ids, real* out, const Tensor* added) override {
    kernels::gather_rows(values_.data(), shape()[1], ids, out, added);
  }

  void assign(std::span<const std::int32_t> ids, const real* values) override {
    const std::size_t width = shape()[1];
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(values + i * width, width,
                  values_.data() + static_cast<std::size_t>(ids[i]) * width);
  }

  std::unique_ptr<OptimizerStates> states(const OptimizerStates::Owner& owner) override {
    return std::make_unique<StatesInMemory>(values_, owner);
  }

 private:
  Tensor values_;
};

}  // namespace

std::unique_ptr<ParameterStorage> values_in_memory(Tensor values) {
  return std::make_unique<ValuesInMemory>(std::move(values));
}

std::vector<std::string> saved_names(std::span<const std::string_view> names) {
  std::vector<std::string> all;
  for (const std::string_view name : names)
    for (const char* form : {"", ".rows", ".values"}) all.push_back(concat(name, form));
  return all;
}

}  // namespace rowgrad
