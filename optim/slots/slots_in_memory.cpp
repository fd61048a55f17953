#include <algorithm>
#include <optional>
#include <utility>

#include <rowgrad/optim/slots/slot_store.hpp>

namespace rowgrad {
namespace {

class SlotsInMemory final : public SlotStore {
 public:
  SlotsInMemory(Tensor& values, const Owner& owner)
      : SlotStore(owner), values_(values), in_arrays_(values.dimension() != 2) {}

  bool lacks(const Needs& needs) const override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (needs.uses[i] && !exists(i)) return true;
    return false;
  }

  void create(const Needs& needs) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i) {
      if (!needs.uses[i] || exists(i)) continue;
      if (needs.starts[i] != 0) make_all();
      if (in_arrays_) arrays_[i] = full(values_.shape(), static_cast<real>(needs.starts[i]));
      if (!in_arrays_) records().add_slot();
      slots_.push_back(i);
    }
  }

  void prepare_write(std::span<const std::int32_t> ids) override {
    if (records_ != nullptr) records_->make(ids);
  }

  void make_all() override {
    if (in_arrays_) return;
    std::array<std::optional<Tensor>, kMaxSlots> arrays;
    std::optional<Steps> steps;
    for (const std::size_t i : slots_) arrays[i] = zeros(values_.shape());
    if (records_ != nullptr) steps = Steps(Steps::shape_type{values_.shape()[0]}, 0);
    for (const std::int64_t row : rows_with_records()) {
      real* const record = record_of(row);
      const auto at = static_cast<std::size_t>(row);
      for (std::size_t k = 0; k < slots_.size(); ++k)
        std::copy_n(record + k * width(), width(), arrays[slots_[k]]->data() + at * width());
      steps->data()[at] = *records_->step(record);
    }
    arrays_ = std::move(arrays);
    steps_ = std::move(steps);
    records_ = nullptr;
    in_arrays_ = true;
  }

  void reset_steps() override {
    if (!in_arrays_) return records().reset_steps();
    if (!steps_) steps_ = Steps::from_shape({values_.shape()[0]});
    BufferPool::clear(steps_->data(), steps_->size() * sizeof(std::uint64_t));
  }

  RowView rows() override {
    RowView view;
    if (values_.dimension() == 2) view.width = view.stride = width();
    view.first[0] = (loaded_ ? *loaded_ : values_).data();
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      if (arrays_[i]) view.first[i + 1] = arrays_[i]->data();
    if (steps_) view.steps = steps_->data();
    if (records_ == nullptr) return view;
    view.records = records_.get();
    for (std::size_t k = 0; k < slots_.size(); ++k)
      view.first[slots_[k] + 1] = records_->at(0) + k * width();
    view.steps = records_->step(records_->at(0));
    return view;
  }

  void save(StateDict& state) const override {
    const std::vector<std::int64_t> rows = rows_with_records();
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      const std::string name(owner_.names[slots_[k]]);
      if (in_arrays_) {
        put_table(state, name, *arrays_[slots_[k]]);
        continue;
      }
      SparseRows sparse{rows, empty({rows.size(), width()})};
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::copy_n(record_of(rows[i]) + k * width(), width(), sparse.values.data() + i * width());
      put_sparse_rows(state, name, values_.shape(), std::move(sparse));
    }
  }

  void load(const StateDict& state, const std::array<bool, kMaxSlots>& saved, bool) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (saved[i]) slots_.push_back(i);
    const auto name = [&](std::size_t k) { return std::string(owner_.names[slots_[k]]); };
    for (std::size_t k = 0; k < slots_.size(); ++k)
      if (!has_sparse_rows(state, name(k))) in_arrays_ = true;
    for (std::size_t k = 0; k < slots_.size(); ++k)
      if (in_arrays_)
        arrays_[slots_[k]] = get_table(state, name(k), values_.shape());
      else
        records().add_slot();
    for (std::size_t k = 0; k < slots_.size() && !in_arrays_; ++k) {
      const SparseRows sparse = get_sparse_rows(state, name(k), values_.shape());
      records_->make(std::vector<std::int32_t>(sparse.rows.begin(), sparse.rows.end()));
      for (std::size_t i = 0; i < sparse.rows.size(); ++i)
        std::copy_n(sparse.values.data() + i * width(), width(),
                    record_of(sparse.rows[i]) + k * width());
    }
  }

  void save_rows(StateDict& state) const override {
    put_table(state, "values", values_);
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

  void load_rows(const StateDict& state, std::uint64_t last, bool) override {
    loaded_ = get_table(state, "values", values_.shape());
    const std::vector<std::int64_t> steps = get_integers(state, "at", values_.shape()[0]);
    check_argument(steps.size() == values_.shape()[0], owner_.optimizer, "::load_state_dict: '",
                   owner_.parameter, ".lazy.at' has ", steps.size(), " values, expected ",
                   values_.shape()[0]);
    for (const std::int64_t step : steps)
      check_argument(step >= 0 && static_cast<std::uint64_t>(step) <= last, owner_.optimizer,
                     "::load_state_dict: '", owner_.parameter, ".lazy.at' has ", step,
                     ", expected a number from 0 to ", last);
    reset_steps();
    std::vector<std::int32_t> rows;
    for (std::size_t row = 0; row < steps.size(); ++row)
      if (steps[row] != 0) rows.push_back(static_cast<std::int32_t>(row));
    prepare_write(rows);
    const RowView view = this->rows();
    for (const std::int32_t id : rows) {
      const auto row = static_cast<std::size_t>(id);
      *view.row<1>(row).step = static_cast<std::uint64_t>(steps[row]);
    }
  }

  void commit() noexcept override {
    if (loaded_) values_ = *std::exchange(loaded_, std::nullopt);
  }

 private:
  using Steps = xt::xarray<std::uint64_t, xt::layout_type::row_major, PoolAllocator<std::uint64_t>>;

  std::size_t width() const { return values_.shape()[1]; }
  bool exists(std::size_t slot) const { return std::ranges::count(slots_, slot) > 0; }

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
  std::vector<std::size_t> slots_;       // the slots in use, in the order of a record
  std::unique_ptr<RowRecords> records_;  // null if there are no records
  bool in_arrays_;                       // true if slots and steps are arrays, not records
  std::array<std::optional<Tensor>, kMaxSlots> arrays_;
  std::optional<Steps> steps_;    // one for each row, once a step was deferred
  std::optional<Tensor> loaded_;  // values that commit() will use
};

}  // namespace

std::unique_ptr<SlotStore> slots_in_memory(Tensor& values, const SlotStore::Owner& owner) {
  return std::make_unique<SlotsInMemory>(values, owner);
}

std::vector<std::string> saved_names(std::span<const std::string_view> names) {
  std::vector<std::string> all;
  for (const std::string_view name : names)
    for (const char* form : {"", ".rows", ".values"}) all.push_back(concat(name, form));
  return all;
}

}  // namespace rowgrad
