#include <algorithm>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tables/file_rows.hpp>
#include <rowgrad/core/tables/record_file.hpp>

namespace rowgrad {

void FileRows::gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) {
  file_.read(ids, out);
  if (added != nullptr) kernels::add_rows(out, file_.width(), ids.size(), *added);
}

void FileRows::scatter(std::span<const std::int32_t> ids, const real* in) {
  const std::size_t width = file_.width();
  const RecordWriter rows = file_.modify(ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    std::copy_n(in + i * width, width, rows.content<real>(static_cast<std::size_t>(ids[i])));
}

void FileRows::check_up_to_date() const {
  if (file_.has_deferred())
    check_state(
        false, location(),
        ": rows have deferred updates of an optimizer; load its state before you use the rows");
}

std::string FileRows::checkpoint_id() const {
  file_.check_not_lost();
  return file_.checkpoint_id();
}

std::unique_ptr<RowSource> file_rows(TableFile& file) { return std::make_unique<FileRows>(file); }

}  // namespace rowgrad
