#pragma once

#include <optional>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// Throws std::invalid_argument naming `layer` for a max_norm that is not finite and above 0, and
/// for a norm_type that is not above 0 (infinity is allowed).
void check_max_norm(const char* layer, const std::optional<double>& max_norm, double norm_type);

/// Before a lookup: scales the rows of `ids` whose norm (Σ |w|^p)^(1/p), p = norm_type, is above
/// max_norm down to it, in place, like max_norm of torch.nn.Embedding. The ids must have been
/// checked. Throws std::logic_error, and changes nothing, if a row is too large and the table was
/// read as a whole on this tape before: the gradients of that read would belong to other values.
void embedding_renorm(const char* layer, Tape& tape, Parameter& table, const Ids& ids,
                      double max_norm, double norm_type);

}  // namespace rowgrad
