#include <algorithm>
#include <optional>
#include <utility>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/tables/file_rows.hpp>
#include <rowgrad/core/tables/record_file.hpp>
#include <rowgrad/optim/slots/slot_store.hpp>

namespace rowgrad {
namespace {

static_assert(TableFile::kMaxSlots == kMaxSlots);

class SlotsInFile final : public SlotStore {
 public:
  SlotsInFile(TableFile& file, const Owner& owner)
      : SlotStore(owner), file_(file), rows_(file.modify({})) {}

  bool lacks(const Needs& needs) const override {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < owner_.names.size(); ++i) {
      if (!needs.uses[i] || slot_in_file(i)) continue;
      ++missing;
      check_argument(needs.starts[i] == 0, owner_.optimizer, ": the initial value of ",
                     owner_.names[i], " is ", needs.starts[i],
                     ", expected 0 for a table in a file");
    }
    if (missing == 0) return false;
    const std::size_t all = missing + (owns_slots_ ? file_.named_slots() : 0);
    check_argument(all <= file_.slots(), owner_.optimizer, ": needs ", all,
                   " slots for each row, but ", path(), " was created for ", file_.slots(),
                   " (TableFileOptions::slots)");
    return true;
  }

  void create(const Needs& needs) override {
    if (!lacks(needs)) return;
    if (!std::exchange(owns_slots_, true)) file_.clear_slots();
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (needs.uses[i] && !slot_in_file(i)) file_.add_slot(owner_.names[i]);
  }

  RowView rows() override {
    RowView view;
    view.width = file_.width();
    view.stride = rows_.stride() / sizeof(real);
    view.first[0] = rows_.first_content<real>();
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (const auto at = slot_in_file(i))
        view.first[i + 1] = view.first[0] + (1 + *at) * view.width;
    view.steps = rows_.first_note();
    view.step_stride = rows_.stride() / sizeof *view.steps;
    view.copied_by = this;
    return view;
  }

  void fault_in(std::span<const std::int32_t> ids, std::uint64_t last) override {
    file_.fault_in(ids);
    for (const std::int32_t id : ids)
      if (const std::uint64_t step = file_.step(static_cast<std::size_t>(id)); step > last)
        check_runtime(false, path(), ": row ", id, " is at step ", step, ", but the history of ",
                      owner_.optimizer, " ends at step ", last,
                      "; the table belongs to another optimizer or is damaged");
  }

  void prepare_write(std::span<const std::int32_t> ids) override {
    rows_ = file_.modify(ids);
    is_saved_ = false;
    note_loss();
  }

  void note_deferred() override { file_.set_deferred(); }

  void abandon() noexcept override {
    is_abandoned_ = true;
    note_loss();
  }

  bool is_stored(std::size_t row) const override { return file_.is_current(row); }

  void copy(std::size_t row, RowCopy& to) const override {
    to.values.resize((1 + file_.slots()) * file_.width());
    file_.read(row, to.values);
    to.step = file_.step(row);
  }

  void save(StateDict& state) const override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i)
      if (slot_in_file(i)) state.put(std::string(owner_.names[i]), file_.checkpoint_id());
  }

  void load(const StateDict& state, const std::array<bool, kMaxSlots>& saved,
            bool values_follow) override {
    for (std::size_t i = 0; i < owner_.names.size(); ++i) {
      const std::string name(owner_.names[i]);
      if (!saved[i]) continue;
      check_checkpoint_id(state.string(name), values_follow);
      if (values_follow) continue;
      check_argument(file_.find_slot(name).has_value(), owner_.optimizer,
                     "::load_state_dict: ", path(), " has no slot '", name, "'");
      owns_slots_ = true;
    }
  }

  void save_rows(StateDict& state) const override {
    state.put("file", file_.checkpoint_id());
    is_saved_ = true;
  }

  void load_rows(const StateDict& state, std::uint64_t, bool values_follow) override {
    check_checkpoint_id(state.string("file"), values_follow);
    is_saved_ = true;
  }

  void commit() noexcept override { file_.set_lost(false); }

 private:
  std::string path() const { return file_.path().string(); }

  // Tells the file whether deferred steps are lost because the optimizer was destroyed without
  // saving them.
  void note_loss() { file_.set_lost(is_abandoned_ && !is_saved_); }

  // Returns the index of slot i among the slots of the file, or nullopt if the file does not have
  // the slot or has it for another optimizer.
  std::optional<std::size_t> slot_in_file(std::size_t i) const {
    return owns_slots_ ? file_.find_slot(owner_.names[i]) : std::nullopt;
  }

  void check_checkpoint_id(const std::string& saved, bool values_follow) const {
    if (values_follow) return file_.check_restore(saved);
    const std::string id = file_.checkpoint_id();
    check_argument(saved == id, owner_.optimizer, "::load_state_dict: the state is of checkpoint '",
                   saved, "', but ", path(), " is at checkpoint '", id,
                   "'; load the model's state first");
  }

  TableFile& file_;
  RecordWriter rows_;              // access to the rows that prepare_write() has prepared
  bool owns_slots_ = false;        // true if the slots in the file belong to this optimizer
  bool is_abandoned_ = false;      // true after abandon()
  mutable bool is_saved_ = false;  // true if no row has changed since the last save
};

}  // namespace

std::unique_ptr<SlotStore> slots_in_file(TableFile& file, const SlotStore::Owner& owner) {
  return std::make_unique<SlotsInFile>(file, owner);
}

std::unique_ptr<SlotStore> slots_of(Parameter& parameter, const SlotStore::Owner& owner) {
  RowSource& source = parameter.source();
  if (Tensor* const values = source.dense()) return slots_in_memory(*values, owner);
  auto* const rows = dynamic_cast<FileRows*>(&source);
  check_argument(rows != nullptr, owner.optimizer, ": ", owner.parameter, " has its rows in ",
                 source.location(), ", expected them in memory or in a file");
  return slots_in_file(rows->file(), owner);
}

}  // namespace rowgrad
