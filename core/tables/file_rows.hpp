#pragma once

// Row sources for table files.

#include <memory>
#include <span>
#include <string>

#include <rowgrad/core/autograd/row_source.hpp>
#include <rowgrad/core/tables/table_file.hpp>

namespace rowgrad {

/// The row source of a table file: `Parameter words("words", file_rows(file))`.
class FileRows final : public RowSource {
 public:
  /// Reserves the file. Requires: `file` outlives this object. Throws std::invalid_argument if
  /// another parameter uses the file.
  explicit FileRows(TableFile& file) : RowSource(file.shape()), file_(file), lease_(file.lease()) {}

  /// Returns the file, which stores slots next to the values.
  TableFile& file() const { return file_; }

  Tensor* dense() override { return nullptr; }
  void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) override;
  void scatter(std::span<const std::int32_t> ids, const real* in) override;
  std::string location() const override { return file_.path().string(); }
  void prefetch(std::span<const std::int32_t> ids) override { file_.prefetch(ids); }
  void check_up_to_date() const override;
  std::string checkpoint_id() const override;
  void check_checkpoint(const std::string& id) const override { file_.check_restore(id); }
  void restore(const std::string& id) override { file_.restore(id, lease_); }

 private:
  TableFile& file_;
  const TableFile::Lease lease_;
};

/// Creates the row source of a table file.
std::unique_ptr<RowSource> file_rows(TableFile& file);

}  // namespace rowgrad
