#pragma once

// Row lookups in a table [rows, width], with a gradient of the looked-up rows only, each alone or
// in bags. The cost, forward and backward, depends only on the number of ids, not on the size of
// the table (unless dense_gradient is set).
//
// Everything is checked before anything changes: std::invalid_argument names the op and what does
// not fit, such as the first id outside the table and its index.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

struct EmbeddingLookup {
  /// The row with this id gets no gradient; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
};

/// table [rows, width], ids [...] of any shape → [..., width]. The cost, forward and backward,
/// depends only on the number of ids, not on the size of the table (unless dense_gradient is set).
/// Throws std::invalid_argument naming the first id outside the table and its place, or a padding
/// id outside it.
Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options = {});

/// embedding(table, ids, options) + added, in one pass over memory. The shape of `added` is that of
/// the result's last axes (such as positions [length, width] for ids [..., length]). Throws what
/// embedding throws, and std::invalid_argument for `added` of another shape.
Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options = {});

/// For ops that look up rows: the rows of `table` [rows, width] for ids [...] → [..., width], plus
/// `added`, if given, which has the shape of the result's last axes. If the table is a parameter,
/// other rows are neither read nor brought up to date. Throws std::invalid_argument naming `caller`
/// for a table of another rank, the first id outside it, and `added` of another shape.
Tensor look_up(std::string_view caller, const Variable& table, const Ids& ids,
               const Tensor* added = nullptr);

/// Throws std::invalid_argument naming `caller` unless the shape `added` is a suffix of `rows`.
void check_added(std::string_view caller, const Shape& rows, const Shape& added);

/// The index of the padding row; negative ids count from the end. Throws std::invalid_argument
/// naming `caller`, the id and the number of rows for an id outside the table.
std::optional<std::int32_t> padding_row(const char* caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);

/// Throws std::invalid_argument naming `layer` for a max_norm that is not finite and above 0, and
/// for a norm_type that is not above 0 (infinity is allowed).
void check_max_norm(const char* layer, const std::optional<double>& max_norm, double norm_type);

/// Before a lookup: scales the rows of `ids` whose norm (Σ |w|^p)^(1/p), p = norm_type, is above
/// max_norm down to it, in place, like max_norm of torch.nn.Embedding. The ids must have been
/// checked. Throws std::logic_error, and changes nothing, if a row is too large and the table was
/// read as a whole on this tape before: the gradients of that read would belong to other values.
void embedding_renorm(const char* layer, Tape& tape, Parameter& table, const Ids& ids,
                      double max_norm, double norm_type);

enum class BagMode { kSum, kMean, kMax };

struct EmbeddingBagLookup {
  BagMode mode = BagMode::kMean;
  /// The row with this id is ignored and gets no gradient; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs; not allowed with kMax.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
  /// Whether the last offset is the end of the last bag instead of the start of another one.
  bool include_last_offset = false;
};

/// What to look up: ids [bags, length], one bag per row; or ids [count] with offsets, where a bag
/// extends from its offset to the next one, and the last bag to the end.
struct Bags {
  Ids ids;
  std::optional<Ids> offsets = std::nullopt;  // [bags], or [bags + 1] with include_last_offset
  /// Factors of the rows, of the shape of `ids`; only with kSum.
  std::optional<Variable> per_sample_weights = std::nullopt;
};

/// table [rows, width] → [bags, width]: for each bag, the sum, mean or element-wise maximum of the
/// rows of its ids, which is NaN if one of them is. A bag that is empty or all padding gives zeros.
/// Of several equal maxima, or NaNs, the first one gets the gradient.
///
/// The cost, forward and backward, depends only on the number of ids, not on the size of the table
/// (unless dense_gradient is set). Throws std::invalid_argument for ids or padding outside the
/// table; ids, offsets or weights of another shape; offsets that do not start at 0, that decrease,
/// or that lie beyond the ids; include_last_offset without offsets, or with a last offset that is
/// not the number of ids; weights without kSum; and scale_grad_by_freq with kMax.
Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingBagLookup& options = {});

/// Throws what embedding_bag would throw; does nothing else.
void check_bags(const Variable& table, const Bags& bags, const EmbeddingBagLookup& options = {});

/// Throws std::invalid_argument naming `caller` for options that exclude each other and for a
/// padding id outside the rows.
void check_bag_options(const char* caller, const EmbeddingBagLookup& options, std::size_t rows);

}  // namespace rowgrad
