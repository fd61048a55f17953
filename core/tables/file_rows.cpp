#include <algorithm>
#include <optional>
#include <utility>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tables/record_file.hpp>
#include <rowgrad/core/tables/table_file.hpp>

namespace rowgrad {
namespace {

class SlotsInFile final : public SlotStore {
 public:
  SlotsInFile(TableFile& file, const Owner& owner)
      : SlotStore(owner), file_(file), rows_(file.modify({})) {}

  bool lacks(const Needs& needs) const override {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < owner_.names.size(); ++i) {
      if (!needs.uses[i] || place(i)) continue;
      ++missing;
      check_argument(needs.starts[i] == 0, owner_.optimizer, ": ", owner_.names[i], " starts as ",
                     needs.starts[i], ", expected 0 for a table in a file");
    }
    if (missing == 0) return false;
    const std::size_t all = missing + (begun_ ? file_.slots_in_use() : 0);
    check_argument(all <= file_.states(), owner_.optimizer, ": needs ", all,
                   " states of each row, but ", path(), " was made for ", file_.states(),
                   " (TableFileOptions::states)");
    return true;
  }

  void ensure(const Needs& needs) override {
    if (!lacks(needs)) return;
    if (!std::exchange(begun_, true)) file_.clear_slots();
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (needs.uses[i] && !place(i)) file_.add_slot(owner_.names[i]);
  }

  RowView view() override {
    RowView view;
    view.width = file_.width();
    view.stride = rows_.stride() / sizeof(real);
    view.first[0] = rows_.first_content<real>();
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (const auto at = place(i)) view.first[i + 1] = view.first[0] + (1 + *at) * view.width;
    view.steps = rows_.first_note();
    view.step_stride = rows_.stride() / sizeof *view.steps;
    view.copied_by = this;
    return view;
  }

  void bring_in(std::span<const std::int32_t> ids, std::uint64_t last) override {
    file_.fault_in(ids);
    for (const std::int32_t id : ids)
      if (const std::uint64_t step = file_.step(static_cast<std::size_t>(id)).value_or(0);
          step > last)
        check_runtime(false, path(), ": row ", id, " is of step ", step, ", but ", owner_.optimizer,
                      " has made ", last, "; this is another optimizer's table, or a damaged one");
  }

  void begin_change(std::span<const std::int32_t> ids) override { rows_ = file_.modify(ids); }

  bool is_stored(std::size_t row) const override { return file_.step(row).has_value(); }

  void copy(std::size_t row, RowCopy& to) const override {
    to.values.resize((1 + file_.states()) * file_.width());
    file_.read(row, to.values);
    to.step = file_.step(row).value_or(0);
  }

  void save(Checkpoint& state) const override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (place(i)) state.put(std::string(owner_.names[i]), file_.checkpoint_id());
  }

  void load(const Checkpoint& state, const std::array<bool, kMaxSlots>& saved,
            bool values_follow) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i) {
      const std::string name(owner_.names[i]);
      if (!saved[i]) continue;
      check_mark(state.text(name), values_follow);
      if (values_follow) continue;
      check_argument(file_.find_slot(name).has_value(), owner_.optimizer,
                     "::load_state_dict: ", path(), " has no ", name, " of its rows");
      begun_ = true;
    }
  }

  void save_rows(Checkpoint& state) const override { state.put("file", file_.checkpoint_id()); }

  void load_rows(const Checkpoint& state, std::uint64_t, bool values_follow) override {
    check_mark(state.text("file"), values_follow);
  }

 private:
  std::string path() const { return file_.path().string(); }

  // Where a state is beside the values of a row. Those of another optimizer do not count.
  std::optional<std::size_t> place(std::size_t i) const {
    return begun_ ? file_.find_slot(owner_.names[i]) : std::nullopt;
  }

  void check_mark(const std::string& saved, bool values_follow) const {
    if (values_follow) return file_.check_restore(saved);
    const std::string mark = file_.checkpoint_id();
    check_argument(saved == mark, owner_.optimizer, "::load_state_dict: the state is of '", saved,
                   "', but ", path(), " is at '", mark, "'; load the state of the model first");
  }

  TableFile& file_;
  RecordWriter rows_;   // access to the rows that begin_change() has prepared
  bool begun_ = false;  // whether the states that the file has are those of this optimizer
};

class RowsInFile final : public ParameterStorage {
 public:
  explicit RowsInFile(TableFile& file)
      : ParameterStorage(file.shape()), file_(file), lease_(file.lease()) {}

  Tensor* all() override { return nullptr; }

  void read(std::span<const std::int32_t> ids, real* out, const Tensor* added) override {
    const std::size_t width = file_.width();
    file_.fault_in(ids);
    for (std::size_t i = 0; i < ids.size(); ++i)
      file_.read(static_cast<std::size_t>(ids[i]), {out + i * width, width});
    if (added != nullptr) kernels::add_rows(out, width, ids.size(), *added);
  }

  void assign(std::span<const std::int32_t> ids, const real* values) override {
    const std::size_t width = file_.width();
    const RecordWriter rows = file_.modify(ids);
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(values + i * width, width, rows.content<real>(static_cast<std::size_t>(ids[i])));
  }

  std::unique_ptr<SlotStore> states(const SlotStore::Owner& owner) override {
    return std::make_unique<SlotsInFile>(file_, owner);
  }

  std::string path() const override { return file_.path().string(); }
  void read_ahead(std::span<const std::int32_t> ids) override { file_.prefetch(ids); }
  bool has_deferred() const override { return file_.has_deferred(); }
  void set_deferred() override { file_.set_deferred(); }
  void set_lost(bool lost) override { file_.set_lost(lost); }
  std::string mark() const override { return file_.checkpoint_id(); }
  void check_mark(const std::string& mark) const override { file_.check_restore(mark); }
  void restore(const std::string& mark) override { file_.restore(mark, lease_); }

 private:
  TableFile& file_;
  const TableFile::Lease lease_;
};

}  // namespace

std::unique_ptr<ParameterStorage> file_rows(TableFile& file) {
  return std::make_unique<RowsInFile>(file);
}

}  // namespace rowgrad
