#include <algorithm>
#include <utility>

#include <rowgrad/core/autograd/row_table.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tables/table_file.hpp>

namespace rowgrad {

// --- RowTable -----------------------------------------------------------------------------------

RowTable::RowTable(const std::string& name, Tensor values)
    : name_(name), values_(std::move(values)), shape_(values_.shape()) {
  element_count(shape_, name_);
}

RowTable::RowTable(const std::string& name, TableFile& file)
    : name_(name), values_(empty({0})), shape_(file.shape()), file_(&file), lease_(file.lease()) {}

void RowTable::refuse_whole(const char* function) const {
  throw std::logic_error(concat(name_, ": ", function, "() needs all values in memory, but those ",
                                "of this table are in ", file_->path().string()));
}

void RowTable::refuse_pass(const std::string& reason) const {
  throw std::invalid_argument(concat(reason, ", which takes a pass over all rows, but those of ",
                                     name_, " are in ", file_->path().string()));
}

void RowTable::check_none_pending() const {
  check_state(file_ == nullptr || !file_->has_pending(), name_, ": rows in ",
              file_ == nullptr ? "" : file_->path().string(),
              " have pending updates of an optimizer; load its state before they are used");
}

void RowTable::read(std::span<const std::int32_t> ids, real* out, const Tensor* added) const {
  if (file_ == nullptr) return kernels::gather_rows(values_.data(), shape_[1], ids, out, added);
  check_none_pending();
  file_->bring_in(ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    file_->read(static_cast<std::size_t>(ids[i]), {out + i * shape_[1], shape_[1]});
  if (added != nullptr) kernels::add_rows(out, shape_[1], ids.size(), *added);
}

void RowTable::read_ahead(std::span<const std::int32_t> ids) const {
  if (file_ != nullptr) file_->read_ahead(ids);
}

void RowTable::assign(std::span<const std::int32_t> ids, const real* values) {
  if (file_ != nullptr) file_->begin_change(ids);
  const std::size_t width = shape_[1];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::size_t>(ids[i]);
    std::copy_n(values + i * width, width,
                file_ != nullptr ? file_->row(row) : values_.data() + row * width);
  }
}

std::optional<std::string> RowTable::mark() const {
  return file_ == nullptr ? std::nullopt : std::optional(file_->mark());
}

void RowTable::check_saved(const Checkpoint& state, const std::string& name) const {
  if (file_ != nullptr)
    file_->check_mark(state.text(name));
  else
    state.check_shape(name, shape_);
}

bool RowTable::restore(const Checkpoint& state, const std::string& name) {
  if (file_ != nullptr) file_->restore(state.text(name), lease_);
  return file_ != nullptr;
}

// --- RowView ------------------------------------------------------------------------------------

bool RowView::is_stored(std::size_t i) const { return file_->is_current(i); }

void RowView::read(std::size_t i, RowCopy& copy) const {
  copy.values.resize((1 + file_->states()) * width_);
  file_->read(i, copy.values);
  copy.step = is_stored(i) ? *row<1>(i).step : 0;
}

RowView RowView::zeros(RowCopy& memory) const {
  memory.values.assign((1 + kMostStates) * width_, 0);
  memory.step = 0;
  RowView row;
  row.width_ = width_;
  row.steps_ = &memory.step;
  for (std::size_t k = 0; k < arrays_.size(); ++k)
    if (arrays_[k] != nullptr) row.arrays_[k] = memory.values.data() + k * width_;
  return row;
}

// --- RowStates ----------------------------------------------------------------------------------

auto RowStates::missing(const Needs& needs) const -> New {
  New states;
  std::size_t count = 0, begun = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    begun += in_file_[i].has_value();
    states.missing[i] = needs.uses[i] && !arrays_[i] && !in_file_[i];
    count += states.missing[i];
    states.starts[i] = static_cast<real>(needs.starts[i]);
    check_argument(table_.file_ == nullptr || !states.missing[i] || needs.starts[i] == 0, owner_,
                   ": ", names_[i], " starts as ", needs.starts[i],
                   ", expected 0 for a table in a file");
  }
  if (const TableFile* const file = table_.file_; file != nullptr && count > 0) {
    const std::size_t all = count + (begun > 0 ? file->states_begun() : 0);
    check_argument(all <= file->states(), owner_, ": needs ", all, " states of each row, but ",
                   file->path().string(), " was made for ", file->states(),
                   " (TableFileOptions::states)");
  }
  return states;
}

void RowStates::make(New& states, bool sparse) {
  if (!states.any()) return;
  TableFile* const file = table_.file_;
  if (file != nullptr &&
      std::ranges::find(in_file_, true, &std::optional<std::size_t>::has_value) == in_file_.end())
    file->begin_states();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!states.missing[i]) continue;
    if (file == nullptr) {
      states.arrays[i] = sparse && states.starts[i] == 0 ? sparse_zeros(table_.shape_)
                                                         : full(table_.shape_, states.starts[i]);
    } else {
      states.in_file[i] = file->state_place(names_[i]);
      if (!states.in_file[i]) states.in_file[i] = file->begin_state(names_[i]);
    }
  }
}

void RowStates::begin(New& states) noexcept {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (states.arrays[i]) arrays_[i] = std::move(states.arrays[i]);
    if (states.in_file[i]) in_file_[i] = states.in_file[i];
  }
}

void RowStates::begin_steps() {
  if (table_.file_ == nullptr) steps_.assign(table_.shape_[0], 0);
}

RowView RowStates::view() {
  RowView view;
  view.width_ = table_.shape_.size() == 2 ? table_.shape_[1] : 0;
  if (TableFile* const file = table_.file_) {
    view.file_ = file;
    view.arrays_[0] = file->row(0);
    view.stride_ = file->stride_bytes() / sizeof(real);
    view.steps_ = &file->step(0);
    view.step_stride_ = file->stride_bytes() / sizeof *view.steps_;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (in_file_[i]) view.arrays_[i + 1] = view.arrays_[0] + (1 + *in_file_[i]) * view.width_;
    return view;
  }
  view.arrays_[0] = (loaded_ ? *loaded_ : table_.values_).data();
  view.stride_ = view.width_;
  if (!steps_.empty()) view.steps_ = steps_.data();
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (arrays_[i]) view.arrays_[i + 1] = arrays_[i]->data();
  return view;
}

void RowStates::check_steps(std::span<const std::int32_t> ids, std::uint64_t last) const {
  TableFile* const file = table_.file_;
  for (const std::int32_t id : ids) {
    const auto row = static_cast<std::size_t>(id);
    const std::uint64_t step = file->is_current(row) ? file->step(row) : 0;
    check_runtime(step <= last, file->path().string(), ": row ", row, " is of step ", step,
                  ", but ", owner_, " has made ", last,
                  "; this is another optimizer's table, or a damaged one");
  }
}

void RowStates::prepare_read(std::span<const std::int32_t> ids, std::uint64_t last) {
  if (table_.file_ == nullptr) return;
  table_.file_->bring_in(ids);
  check_steps(ids, last);
}

void RowStates::prepare_change(std::span<const std::int32_t> ids, std::uint64_t last) {
  if (table_.file_ == nullptr) return;
  table_.file_->verify_rows(ids);
  check_steps(ids, last);
  table_.file_->begin_change(ids);
}

void RowStates::note_pending() {
  if (table_.file_ != nullptr) table_.file_->set_pending();
}

void RowStates::check_all_known() const {
  check_state(table_.file_ == nullptr || !table_.file_->has_pending(), owner_, ": rows of ",
              table_.name_, " in ", table_.file_ == nullptr ? "" : table_.file_->path().string(),
              " have pending updates; load the optimizer's state first");
}

// --- Saving and loading -------------------------------------------------------------------------

std::vector<std::string> saved_names(std::span<const std::string_view> names) {
  std::vector<std::string> all;
  for (const std::string_view name : names)
    for (const char* form : {"", ".rows", ".values"}) all.push_back(concat(name, form));
  return all;
}

// What states in a file were saved as before checkpoints had its mark.
constexpr std::string_view kOldMark = "in the table's file";

void RowStates::check_mark(const std::string& saved, bool values_follow) const {
  if (values_follow) return table_.file_->check_mark(saved);
  const std::string mark = table_.file_->mark();
  check_argument(saved == mark, owner_, "::load_state_dict: the state is of '", saved, "', but ",
                 table_.file_->path().string(), " is at '", mark,
                 "'; load the state of the model first");
}

void RowStates::save(Checkpoint& state) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string name(names_[i]);
    if (in_file_[i]) state.put(name, table_.file_->mark());
    if (arrays_[i]) put_rows(state, name, *arrays_[i]);
  }
}

void RowStates::load(const Checkpoint& state, const std::array<bool, kMostStates>& always,
                     bool values_follow) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string name(names_[i]);
    if (!always[i] && !has_rows(state, name)) continue;
    if (TableFile* const file = table_.file_) {
      if (state.text(name) != kOldMark) check_mark(state.text(name), values_follow);
      if (values_follow) continue;
      in_file_[i] = file->state_place(name);
      check_argument(in_file_[i].has_value(), owner_, "::load_state_dict: ", file->path().string(),
                     " has no ", name, " of its rows");
    } else {
      arrays_[i] = rows_in(state, name, table_.shape_);
    }
  }
}

void RowStates::save_rows(Checkpoint& state) const {
  if (table_.file_ != nullptr) return state.put("file", table_.file_->mark());
  put_rows(state, "values", table_.values_);
  state.put("at", std::vector<std::int64_t>(steps_.begin(), steps_.end()));
}

void RowStates::load_rows(const Checkpoint& state, std::uint64_t last, bool values_follow) {
  if (table_.file_ != nullptr) return check_mark(state.text("file"), values_follow);
  loaded_ = rows_in(state, "values", table_.shape_);
  const std::vector<std::int64_t> steps = state.integers("at");
  check_argument(steps.size() == table_.shape_[0], owner_, "::load_state_dict: '", table_.name_,
                 ".lazy.at' has ", steps.size(), " numbers, expected ", table_.shape_[0]);
  for (const std::int64_t step : steps)
    check_argument(step >= 0 && static_cast<std::uint64_t>(step) <= last, owner_,
                   "::load_state_dict: '", table_.name_, ".lazy.at' has ", step,
                   ", expected a number from 0 to ", last);
  steps_.assign(steps.begin(), steps.end());
}

void RowStates::take_over() noexcept {
  if (loaded_) table_.values_ = *std::exchange(loaded_, std::nullopt);
}

}  // namespace rowgrad
