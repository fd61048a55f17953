#include <algorithm>
#include <optional>
#include <utility>

#include <rowgrad/core/autograd/parameter_storage.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {
namespace {

class SlotsInMemory final : public SlotStore {
 public:
  SlotsInMemory(Tensor& values, const Owner& owner)
      : SlotStore(owner), values_(values), in_arrays_(values.dimension() != 2) {}

  bool lacks(const Needs& needs) const override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (needs.uses[i] && !has_begun(i)) return true;
    return false;
  }

  void ensure(const Needs& needs) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i) {
      if (!needs.uses[i] || has_begun(i)) continue;
      if (needs.starts[i] != 0) make_all();
      if (in_arrays_) arrays_[i] = full(values_.shape(), static_cast<real>(needs.starts[i]));
      if (!in_arrays_) records().add_state();
      begun_.push_back(i);
    }
  }

  void make_records(std::span<const std::int32_t> ids) override {
    if (records_ != nullptr) records_->make(ids);
  }

  void make_all() override {
    if (in_arrays_) return;
    std::array<std::optional<Tensor>, kMaxSlots> arrays;
    std::optional<Steps> steps;
    for (const std::size_t i : begun_) arrays[i] = zeros(values_.shape());
    if (records_ != nullptr) steps = Steps(Steps::shape_type{values_.shape()[0]}, 0);
    for (const std::int64_t row : rows_with_records()) {
      real* const record = record_of(row);
      const auto at = static_cast<std::size_t>(row);
      for (std::size_t k = 0; k < begun_.size(); ++k)
        std::copy_n(record + k * width(), width(), arrays[begun_[k]]->data() + at * width());
      steps->data()[at] = *records_->step(record);
    }
    arrays_ = std::move(arrays);
    steps_ = std::move(steps);
    records_ = nullptr;
    in_arrays_ = true;
  }

  void begin_steps() override {
    if (!in_arrays_) return records().reset_steps();
    if (!steps_) steps_ = Steps::from_shape({values_.shape()[0]});
    BufferPool::clear(steps_->data(), steps_->size() * sizeof(std::uint64_t));
  }

  RowView view() override {
    RowView view;
    if (values_.dimension() == 2) view.width = view.stride = width();
    view.first[0] = (loaded_ ? *loaded_ : values_).data();
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      if (arrays_[i]) view.first[i + 1] = arrays_[i]->data();
    if (steps_) view.steps = steps_->data();
    if (records_ == nullptr) return view;
    view.records = records_.get();
    for (std::size_t k = 0; k < begun_.size(); ++k)
      view.first[begun_[k] + 1] = records_->at(0) + k * width();
    view.steps = records_->step(records_->at(0));
    return view;
  }

  void save(Checkpoint& state) const override {
    const std::vector<std::int64_t> rows = rows_with_records();
    for (std::size_t k = 0; k < begun_.size(); ++k) {
      const std::string name(owner_.names[begun_[k]]);
      if (in_arrays_) {
        put_rows(state, name, *arrays_[begun_[k]]);
        continue;
      }
      SparseRows sparse{rows, empty({rows.size(), width()})};
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::copy_n(record_of(rows[i]) + k * width(), width(), sparse.values.data() + i * width());
      put_sparse_rows(state, name, values_.shape(), std::move(sparse));
    }
  }

  void load(const Checkpoint& state, const std::array<bool, kMaxSlots>& saved, bool) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (saved[i]) begun_.push_back(i);
    const auto name = [&](std::size_t k) { return std::string(owner_.names[begun_[k]]); };
    for (std::size_t k = 0; k < begun_.size(); ++k)
      if (!has_sparse_rows(state, name(k))) in_arrays_ = true;
    for (std::size_t k = 0; k < begun_.size(); ++k)
      if (in_arrays_)
        arrays_[begun_[k]] = rows_in(state, name(k), values_.shape());
      else
        records().add_state();
    for (std::size_t k = 0; k < begun_.size() && !in_arrays_; ++k) {
      const SparseRows sparse = sparse_rows_in(state, name(k), values_.shape());
      records_->make(std::vector<std::int32_t>(sparse.rows.begin(), sparse.rows.end()));
      for (std::size_t i = 0; i < sparse.rows.size(); ++i)
        std::copy_n(sparse.values.data() + i * width(), width(),
                    record_of(sparse.rows[i]) + k * width());
    }
  }

  void save_rows(Checkpoint& state) const override {
    put_rows(state, "values", values_);
    if (in_arrays_)
      return put_integers(state, "at", std::vector<std::int64_t>(steps_->begin(), steps_->end()));
    SparseIntegers at;
    for (const std::int64_t row : rows_with_records()) {
      const std::uint64_t step = *records_->step(record_of(row));
      if (step == 0) continue;
      at.rows.push_back(row);
      at.values.push_back(static_cast<std::int64_t>(step));
    }
    put_sparse_integers(state, "at", values_.shape()[0], std::move(at));
  }

  void load_rows(const Checkpoint& state, std::uint64_t last, bool) override {
    loaded_ = rows_in(state, "values", values_.shape());
    const std::vector<std::int64_t> steps = integers_in(state, "at", values_.shape()[0]);
    check_argument(steps.size() == values_.shape()[0], owner_.optimizer, "::load_state_dict: '",
                   owner_.parameter, ".lazy.at' has ", steps.size(), " numbers, expected ",
                   values_.shape()[0]);
    for (const std::int64_t step : steps)
      check_argument(step >= 0 && static_cast<std::uint64_t>(step) <= last, owner_.optimizer,
                     "::load_state_dict: '", owner_.parameter, ".lazy.at' has ", step,
                     ", expected a number from 0 to ", last);
    begin_steps();
    std::vector<std::int32_t> rows;
    for (std::size_t row = 0; row < steps.size(); ++row)
      if (steps[row] != 0) rows.push_back(static_cast<std::int32_t>(row));
    make_records(rows);
    const RowView view = this->view();
    for (const std::int32_t id : rows) {
      const auto row = static_cast<std::size_t>(id);
      *view.row<1>(row).step = static_cast<std::uint64_t>(steps[row]);
    }
  }

  void take_over() noexcept override {
    if (loaded_) values_ = *std::exchange(loaded_, std::nullopt);
  }

 private:
  using Steps = xt::xarray<std::uint64_t, xt::layout_type::row_major, PoolAllocator<std::uint64_t>>;

  std::size_t width() const { return values_.shape()[1]; }
  bool has_begun(std::size_t state) const { return std::ranges::count(begun_, state) > 0; }

  RowRecords& records() {
    if (records_ == nullptr) records_ = std::make_unique<RowRecords>(values_.shape()[0], width());
    return *records_;
  }

  std::vector<std::int64_t> rows_with_records() const {
    std::vector<std::int64_t> rows;
    for (std::size_t row = 0; records_ != nullptr && row < values_.shape()[0]; ++row)
      if (records_->number_of(row) != 0) rows.push_back(static_cast<std::int64_t>(row));
    return rows;
  }

  real* record_of(std::int64_t row) const {
    return records_->at(records_->number_of(static_cast<std::size_t>(row)));
  }

  Tensor& values_;
  std::vector<std::size_t> begun_;       // the states in use, in their order in records
  std::unique_ptr<RowRecords> records_;  // null while there are none
  bool in_arrays_;                       // whether states and steps are arrays instead
  std::array<std::optional<Tensor>, kMaxSlots> arrays_;
  std::optional<Steps> steps_;  // of each row, once steps have begun
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

  std::unique_ptr<SlotStore> states(const SlotStore::Owner& owner) override {
    return std::make_unique<SlotsInMemory>(values_, owner);
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
