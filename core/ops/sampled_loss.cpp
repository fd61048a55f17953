#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/core/ops/sampled_loss.hpp>

namespace rowgrad {
namespace {

using kernels::kLanes;
using kernels::Simd;

// The rows of a table, or the elements of a vector, at a list of ids. They are read in place if
// possible. Otherwise, each distinct row is copied once.
class RowsAt {
 public:
  RowsAt(const Variable& table, const std::shared_ptr<const Ids>& ids,
         const kernels::RowGroups& groups)
      : width_(table.shape().size() == 2 ? table.shape()[1] : 1), index_(ids->data()) {
    Parameter* const rows = table.shape().size() == 2 ? table.parameter() : nullptr;
    if (rows != nullptr) table.tape().record_lookup(*rows, ids);
    if (rows == nullptr || (rows->is_in_memory() && rows->deferred() == nullptr)) {
      data_ = rows == nullptr ? table.read().data() : rows->value().data();
      return;
    }
    copies_ = rows->gathered_rows(groups.indices);
    copy_of_.resize(ids->size());
    for (std::size_t g = 0; g < groups.indices.size(); ++g)
      for (std::size_t i = groups.starts[g]; i < groups.starts[g + 1]; ++i)
        copy_of_[groups.position(i)] = static_cast<std::int32_t>(g);
    data_ = copies_.data();
    index_ = copy_of_.data();
  }

  const real* operator[](std::size_t position) const {
    return data_ + static_cast<std::size_t>(index_[position]) * width_;
  }

 private:
  std::size_t width_;
  const std::int32_t* index_;
  const real* data_;
  Tensor copies_;
  std::vector<std::int32_t> copy_of_;
};

// Returns a · b. For the few last elements, scalars are faster than a partial vector.
real dot(const real* a, const real* b, std::size_t width) {
  Simd sum(real{0});
  real rest = 0;
  std::size_t i = 0;
  for (; i + kLanes <= width; i += kLanes)
    sum += Simd::load_unaligned(a + i) * Simd::load_unaligned(b + i);
  for (; i < width; ++i) rest += a[i] * b[i];
  return kernels::lanes::sum(sum) + rest;
}

// Computes the losses of a few targets. Replaces their logits [rows, columns], of the target in
// column 0 and of samples in the others, by the derivatives of scale · Σ losses.
using LossOfLogits = std::function<void(real* logits, std::size_t rows, std::size_t columns,
                                        real scale, real* losses)>;

// Targets in a block. Without shared samples, their rows stay in the L1 cache.
constexpr std::size_t kBlock = 8, kSharedBlock = 64;

constexpr real kInfinity = std::numeric_limits<real>::infinity();

// Checks the arguments, and returns the indices of unmasked targets.
std::vector<std::int32_t> unmasked_rows(std::string_view op, const Variable& x, const Shape& weight,
                                        const std::optional<Variable>& bias, const Ids& targets,
                                        const Ids& samples,
                                        std::optional<std::int32_t> ignore_index) {
  kernels::check_table(op, weight);
  Shape shape(targets.shape().begin(), targets.shape().end());
  shape.push_back(weight[1]);
  check_argument(x.shape() == shape, op, ": x has shape ", bracketed(x.shape()), ", expected ",
                 bracketed(shape), " (the targets' shape and the weight's width)");
  const Shape sampled(samples.shape().begin(), samples.shape().end());
  shape.back() = sampled.empty() ? 0 : sampled.back();
  check_argument(shape.back() > 0 && (sampled.size() == 1 || sampled == shape), op,
                 ": the samples have shape ", bracketed(sampled),
                 ", expected [count] or the targets' shape and a count above 0");
  check_argument(
      !bias || bias->shape() == Shape({weight[0]}) || bias->shape() == Shape({weight[0], 1}), op,
      ": bias has shape ", bracketed(bias ? bias->shape() : shape), ", expected [", weight[0],
      "] or [", weight[0], ", 1]");
  kernels::check_ids(op, samples.storage(), sampled, weight[0]);
  shape.pop_back();
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int32_t target = targets.data()[i];
    if (target == ignore_index) continue;
    if (target < 0 || static_cast<std::size_t>(target) >= weight[0])
      check_argument(false, op, ": target ", target, " at ", bracketed(index_at(shape, i)),
                     " is out of range: there are ", weight[0], " classes");
    rows.push_back(static_cast<std::int32_t>(i));
  }
  return rows;
}

Variable sampled_loss(OpName op, const Variable& x, const Variable& weight,
                      const std::optional<Variable>& bias, const Ids& targets,
                      const NegativeSamples& samples, LossReduction reduction,
                      std::optional<std::int32_t> ignore_index, const LossOfLogits& loss) {
  const std::vector<std::int32_t> rows =
      unmasked_rows(op, x, weight.shape(), bias, targets, samples.ids, ignore_index);
  const std::size_t count = rows.size(), width = weight.shape()[1];
  const std::size_t sampled = count == 0 ? 0 : samples.ids.shape().back(), columns = 1 + sampled;
  const bool shared = samples.ids.dimension() == 1, all = count == targets.size();
  // Positions in `ids`: `own` classes of each target, then the shared samples.
  const std::size_t own = shared ? 1 : columns, owned = count * own;
  const auto ids = std::make_shared<Ids>(Ids::from_shape({owned + (shared ? sampled : 0)}));
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    ids->data()[i * own] = targets.data()[row];
    std::copy_n(samples.ids.data() + row * sampled, own - 1, ids->data() + i * own + 1);
  }
  if (shared) std::copy_n(samples.ids.data(), sampled, ids->data() + owned);
  kernels::RowGroups groups(ids->storage(), std::nullopt);
  const RowsAt weights(weight, ids, groups);
  std::optional<RowsAt> biases;
  if (bias) biases.emplace(*bias, ids, groups);

  Tensor picked = empty({all ? 0 : count, width});
  if (!all) kernels::gather_rows(x.read().data(), width, rows, picked.data());
  const real* const inputs = all ? x.read().data() : picked.data();
  Tensor shared_rows = zeros({shared ? columns : 0, width});  // row 0 stands for the targets
  for (std::size_t j = 0; shared && j < sampled; ++j)
    std::copy_n(weights[owned + j], width, shared_rows.data() + (1 + j) * width);
  const blas::MatrixView shared_matrix{shared_rows.data(), columns, width};
  const bool is_mean = reduction == LossReduction::kMean;
  const real scale = is_mean ? real{1} / static_cast<real>(std::max<std::size_t>(count, 1)) : 1;
  Tensor slopes = empty({count, columns});  // logits, then their derivatives
  Tensor losses = empty({count}), dx = empty({x.needs_gradient() ? count : 0, width});
  const Tensor& logs = samples.log_expected_counts;
  const std::size_t block = shared ? kSharedBlock : kBlock, ahead = kernels::rows_ahead(width);
  kernels::parallel_for(
      (count + block - 1) / block, kernels::row_grain(2 * block * columns * width),
      [&](std::size_t begin, std::size_t end) {
        const std::size_t limit = std::min(end * block, count);
        for (std::size_t first = begin * block; first < limit; first += block) {
          const std::size_t size = std::min(block, limit - first);
          real* const logits = slopes.data() + first * columns;
          if (shared)
            blas::gemm({inputs + first * width, size, width}, blas::transposed(shared_matrix),
                       {logits, size, columns});
          for (std::size_t i = first; i < first + size; ++i) {
            real* const z = slopes.data() + i * columns;
            for (std::size_t at = i * own; at < (i + 1) * own; ++at) {
              if (at + ahead < limit * own) kernels::prefetch_row(weights[at + ahead], width);
              z[at - i * own] = dot(inputs + i * width, weights[at], width);
            }
            const std::size_t position = shared ? owned : i * own + 1;
            const std::size_t log = shared ? 0 : static_cast<std::size_t>(rows[i]) * sampled;
            if (biases) z[0] += *(*biases)[i * own];
            for (std::size_t j = 0; j < sampled; ++j) {
              if (biases) z[1 + j] += *(*biases)[position + j];
              if (logs.size() > 0) z[1 + j] -= logs.data()[log + j];
              if (ids->data()[position + j] == ids->data()[i * own]) z[1 + j] = -kInfinity;
            }
          }
          loss(logits, size, columns, scale, losses.data() + first);
          if (dx.size() == 0) continue;
          for (std::size_t i = first; i < first + size; ++i)
            kernels::sum_terms(
                own, width, [&, i](std::size_t j) { return weights[i * own + j]; },
                [z = slopes.data() + i * columns](const Simd& v, std::size_t j) {
                  return v * Simd(z[j]);
                },
                dx.data() + i * width);
          if (shared)
            blas::gemm({logits, size, columns}, shared_matrix,
                       {dx.data() + first * width, size, width}, 1);
        }
      });

  const bool is_sum = reduction != LossReduction::kNone;
  Tensor value = zeros(is_sum ? Shape() : Shape(targets.shape().begin(), targets.shape().end()));
  if (is_sum)
    *value.data() = scale * static_cast<real>(std::accumulate(losses.begin(), losses.end(), 0.0));
  for (std::size_t i = 0; !is_sum && i < count; ++i) value.data()[rows[i]] = losses.data()[i];
  std::vector<Variable> variables{x, weight};
  if (bias) variables.push_back(*bias);
  return record(
      op, variables, std::move(value),
      [=, groups = std::move(groups), picked = std::move(picked), slopes = std::move(slopes),
       dx = std::move(dx), size = targets.size(),
       has_bias = bias.has_value()](Backward& node) mutable {
        for (std::size_t i = 0; i < count; ++i) {
          const real factor = node.gradient().data()[is_sum ? 0 : rows[i]];
          if (factor == 1) continue;
          for (std::size_t j = 0; j < columns; ++j) slopes.data()[i * columns + j] *= factor;
          for (std::size_t j = 0; j < width && dx.size() > 0; ++j)
            dx.data()[i * width + j] *= factor;
        }
        if (node.slot(0)) {
          if (!all) dx = RowGradient({size, width}, rows, std::move(dx)).to_dense();
          node.slot(0).take(reshaped(std::move(dx), node.input_shape(0)));
        }
        // The sums over all targets for shared samples, and the slopes by position.
        const real* const from = all ? node.input(0).data() : picked.data();
        Tensor sums = empty({shared ? columns : 0, width});
        const blas::MatrixView slope_matrix{slopes.data(), count, columns};
        if (shared && count > 0 && node.slot(1))
          blas::gemm(blas::transposed(slope_matrix), {from, count, width},
                     {sums.data(), columns, width});
        Tensor of_shared = full({shared ? count + sampled : 0}, 1);
        for (std::size_t i = 0; shared && i < count; ++i)
          of_shared.data()[i] = slopes.data()[i * columns];
        real* const slope = shared ? of_shared.data() : slopes.data();
        if (node.slot(1)) {
          const auto row_at = [=, row = sums.data() + width,
                               own_32 = static_cast<std::uint32_t>(own)](std::size_t i) {
            return i < owned ? from + static_cast<std::uint32_t>(i) / own_32 * width
                             : row + (i - owned) * width;
          };
          const auto term = [slope](const Simd& v, std::size_t i) { return v * Simd(slope[i]); };
          node.slot(1).take(RowGradient(node.input_shape(1),
                                        kernels::sum_groups(groups, width, false, row_at, term)));
        }
        if (!has_bias || !node.slot(2)) return;
        if (shared && count > 0) {
          const Tensor ones = full({count}, 1);
          Tensor totals = empty({columns});
          blas::gemm({ones.data(), 1, count}, slope_matrix, {totals.data(), 1, columns});
          std::copy_n(totals.data() + 1, sampled, slope + owned);
        }
        const Shape& shape = node.input_shape(2);
        RowGradient gradient({shape[0], 1}, kernels::sum_groups(
                                                std::move(groups), 1, false,
                                                [slope](std::size_t i) { return slope + i; },
                                                [](const Simd& v, std::size_t) { return v; }));
        node.slot(2).take(shape.size() == 2 ? Gradient(std::move(gradient))
                                            : reshaped(gradient.to_dense(), shape));
      });
}

}  // namespace

Variable negative_sampling_loss(const Variable& x, const Variable& weight, const Ids& targets,
                                const Ids& negatives, const NegativeSamplingOptions& options) {
  const auto factor = static_cast<real>(options.negative_weight);
  check_argument(factor >= 0 && std::isfinite(factor),
                 "negative_sampling_loss: negative_weight is ", options.negative_weight,
                 ", expected a finite number >= 0");
  return sampled_loss(
      "negative_sampling_loss", x, weight, std::nullopt, targets, {negatives, empty({0})},
      options.reduction, options.ignore_index,
      [factor](real* logits, std::size_t rows, std::size_t columns, real scale, real* losses) {
        // Writes slope · σ(z), and returns log(1 + exp(z)).
        const auto differentiate = [](const auto& v, real* z, Simd slope) {
          const Simd y = v.load(z, -kInfinity), e = exp(-abs(y));
          v.store(select(y >= 0, slope, slope * e) / (e + Simd(real{1})), z);
          return max(y, 0) + log1p(e);
        };
        std::array<real, kSharedBlock> of_targets;
        for (std::size_t i = 0; i < rows; ++i) of_targets[i] = -logits[i * columns];
        kernels::for_vectors(0, rows, [&](const auto& v) {
          v.store(differentiate(v, of_targets.data(), Simd(-scale)), losses);
        });
        for (std::size_t i = 0; i < rows; ++i) {
          real* const z = logits + i * columns;
          Simd sum(real{0});
          kernels::for_vectors(
              1, columns, [&](const auto& v) { sum += differentiate(v, z, Simd(scale * factor)); });
          losses[i] += factor * kernels::lanes::sum(sum);
          z[0] = of_targets[i];
        }
      });
}

Variable sampled_softmax_loss(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const NegativeSamples& samples,
                              const SampledSoftmaxOptions& options) {
  static constexpr char kName[] = "sampled_softmax_loss";
  const Tensor& logs = samples.log_expected_counts;
  const Shape shape(samples.ids.shape().begin(), samples.ids.shape().end());
  check_argument(logs.shape() == shape, kName, ": log_expected_counts has shape ",
                 bracketed(logs.shape()), ", expected the samples' ", bracketed(shape));
  const auto wrong =
      std::find_if_not(logs.begin(), logs.end(), [](real log) { return std::isfinite(log); });
  check_argument(wrong == logs.end(), kName, ": log_expected_counts has an element ",
                 wrong == logs.end() ? 0 : *wrong, ", expected finite values");
  return sampled_loss(
      kName, x, weight, bias, targets, samples, options.reduction, options.ignore_index,
      [](real* logits, std::size_t rows, std::size_t columns, real scale, real* losses) {
        std::array<kernels::ExpSum, kSharedBlock> sums;
        std::array<real, kSharedBlock> scales;
        scales.fill(scale);
        kernels::exp_sum_rows(logits, rows, columns, false, sums.data());
        for (std::size_t i = 0; i < rows; ++i)
          losses[i] = static_cast<real>(sums[i].above(logits[i * columns]));
        kernels::log_sum_exp_rows_backward(logits, sums.data(), scales.data(), rows, columns,
                                           logits);
        for (std::size_t i = 0; i < rows; ++i) logits[i * columns] -= scale;
      });
}

}  // namespace rowgrad
