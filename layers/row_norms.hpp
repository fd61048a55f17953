#pragma once

#include <optional>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// Throws std::invalid_argument naming `layer` for a max_norm that is not finite and above 0, and a
/// norm_type that is not above 0 (infinity is).
void check_max_norm(const char* layer, const std::optional<double>& max_norm, double norm_type);

/// Before a lookup: rows of the table whose norm (Σ |w|^p)^(1/p), p = norm_type, is larger than
/// max_norm are scaled down to it, in the table itself, as torch.nn.Embedding's max_norm does. The
/// ids have been checked. Throws std::logic_error, and changes nothing, if a row is too large and
/// the table was read as a whole on this tape before: the gradients of that reading would be of
/// other numbers.
void limit_row_norms(const char* layer, Tape& tape, Parameter& table, const Ids& ids,
                     double max_norm, double norm_type);

}  // namespace rowgrad
