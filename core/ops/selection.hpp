#pragma once

// Ops that select elements: by size, by a mask or by ids. Wrong shapes, ids and axes throw
// std::invalid_argument, and masks on another tape std::logic_error.

#include <cstddef>

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {

/// Return the larger or smaller of two elements, with broadcasting; NaN if either is NaN. Equal
/// elements get half of the gradient each. If either is NaN, both get the whole gradient.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
Variable maximum(const Variable& x, real number);
Variable minimum(const Variable& x, real number);

/// Return the largest or smallest element along one axis, which must not be empty. The result is
/// NaN if any element is. The gradient goes to the first of several equal elements; see amax().
Variable max(const Variable& x, int axis, KeepAxes keep = KeepAxes::kNo);
Variable min(const Variable& x, int axis, KeepAxes keep = KeepAxes::kNo);

/// Return the indices of the elements that max() and min() return.
Ids argmax(const Variable& x, int axis, KeepAxes keep = KeepAxes::kNo);
Ids argmin(const Variable& x, int axis, KeepAxes keep = KeepAxes::kNo);

/// The order of sorted elements. NaN counts as the largest element.
enum class SortOrder { kAscending, kDescending };

/// Elements in order, and their indices along the axis.
struct Sorted {
  Variable values;
  Ids indices;
};

/// Sorts x along one axis. Equal elements keep their order.
Sorted sort(const Variable& x, int axis = -1, SortOrder order = SortOrder::kAscending);
/// Returns the indices of sort().
Ids argsort(const Variable& x, int axis = -1, SortOrder order = SortOrder::kAscending);
/// Returns the first `count` elements of sort(): the largest, or the smallest if ascending.
Sorted topk(const Variable& x, std::size_t count, int axis = -1,
            SortOrder order = SortOrder::kDescending);

/// Picks elements along one axis, like torch.gather: for axis 1 of three, y[i, j, k] = x[i, ids[i,
/// j, k], k]. The ids must have the rank of x; only this axis may be longer. y has the shape of the
/// ids. The gradient of an element is the sum over its uses.
Variable gather(const Variable& x, int axis, const Ids& ids);

/// Return x with elements replaced by, or increased by, the elements of `source`, which has the
/// shape of the ids: for axis 1 of three, y[i, ids[i, j, k], k] = source[i, j, k]. See gather().
/// If ids repeat, scatter() keeps the last source along the axis. Replaced elements get gradient 0.
Variable scatter(const Variable& x, int axis, const Ids& ids, const Variable& source);
Variable scatter_add(const Variable& x, int axis, const Ids& ids, const Variable& source);

/// Returns the slices `ids` of one axis: for axis 1 of three, y[i, j, k] = x[i, ids[j], k]. Id −1
/// is the last slice. Ids of more axes add axes. The gradient is dense; embedding() gives tables
/// row gradients.
Variable index_select(const Variable& x, int axis, const Ids& ids);

/// Adds source[i, j, k] to x[i, ids[j], k], for axis 1 of three. Ids may repeat. Id −1 is the last.
Variable index_add(const Variable& x, int axis, const Ids& ids, const Variable& source);

/// Returns the indices of the elements of a vector that are nonzero or NaN. index_select(x, 0,
/// nonzero(mask)) returns the rows of x that the mask selects.
Ids nonzero(const Variable& mask);

/// Returns the elements of x where the mask is nonzero or NaN, in row-major order: [count]. The
/// mask must broadcast to the shape of x.
Variable masked_select(const Variable& x, const Variable& mask);

/// Returns [..., classes]: 1 at each id and 0 elsewhere.
Tensor one_hot(const Ids& ids, std::size_t classes);

/// Returns a where the condition is nonzero or NaN, else b, with broadcasting. The condition gets
/// no gradient.
Variable where(const Variable& condition, const Variable& a, const Variable& b);
Variable where(const Variable& condition, const Variable& a, real b);
Variable where(const Variable& condition, real a, const Variable& b);

/// Returns `value` where the mask is nonzero or NaN, else x. The mask must broadcast to the shape
/// of x.
Variable masked_fill(const Variable& x, const Variable& mask, real value);

}  // namespace rowgrad
