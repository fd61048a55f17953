#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/core/ops/embedding.hpp>
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

// Logits of a few rows of x: of their targets, and of sets of samples with `columns` − 1 samples
// each, from column 1 on. The targets starts[i] to starts[i + 1] − 1 have set i.
struct Logits {
  real *targets, *sets;
  const real* repeats;  // as `sets`: the number of the set's targets that differ from the sample
  std::span<const std::size_t> starts;
  std::size_t columns;

  std::size_t size() const { return starts.size() - 1; }  // number of sets
};

// Replaces logits by the derivatives of scale · Σ losses. Writes a loss for each target; their sum
// over the targets of a set includes the loss of the set.
using LossOfLogits = std::function<void(const Logits& logits, real scale, real* losses)>;

// Targets in a block, if each row has one. Without shared samples, their rows stay in the L1 cache.
constexpr std::size_t kBlock = 8, kSharedBlock = 64;

constexpr real kInfinity = std::numeric_limits<real>::infinity();

// Unmasked targets, and the rows of x that have any.
struct Unmasked {
  std::vector<std::int32_t> targets, rows;  // indices
  std::vector<std::uint32_t> row_of;        // for each target, the position of its row in `rows`
  std::vector<std::size_t> starts = {};     // for each row, the position of its first target
};

// Checks the arguments, and returns the unmasked targets.
Unmasked unmasked(std::string_view op, const Variable& x, const Shape& weight,
                  const std::optional<Variable>& bias, const Ids& targets,
                  const std::optional<Ids>& offsets, const Ids& samples,
                  std::optional<std::int32_t> ignore_index) {
  kernels::check_table(op, weight);
  std::vector<std::size_t> bags;
  if (offsets) bags = bag_starts(op, targets, *offsets);
  Shape shape(targets.shape().begin(), targets.shape().end());
  Shape inputs = offsets ? Shape{offsets->size()} : shape;
  inputs.push_back(weight[1]);
  check_argument(x.shape() == inputs, op, ": x has shape ", bracketed(x.shape()), ", expected ",
                 bracketed(inputs), " (the ", offsets ? "offsets'" : "targets'",
                 " shape and the weight's width)");
  const Shape sampled(samples.shape().begin(), samples.shape().end());
  shape.push_back(sampled.empty() ? 0 : sampled.back());
  check_argument(shape.back() > 0 && (sampled.size() == 1 || sampled == shape), op,
                 ": the samples have shape ", bracketed(sampled),
                 ", expected [count] or the targets' shape and a count above 0");
  check_argument(
      !bias || bias->shape() == Shape({weight[0]}) || bias->shape() == Shape({weight[0], 1}), op,
      ": bias has shape ", bracketed(bias ? bias->shape() : shape), ", expected [", weight[0],
      "] or [", weight[0], ", 1]");
  kernels::check_ids(op, samples.storage(), sampled, weight[0]);
  shape.pop_back();
  Unmasked kept;
  for (std::size_t i = 0, row = 0; i < targets.size(); ++i) {
    while (offsets ? bags[row + 1] <= i : row < i) ++row;
    const std::int32_t target = targets.data()[i];
    if (target == ignore_index) continue;
    if (target < 0 || static_cast<std::size_t>(target) >= weight[0])
      check_argument(false, op, ": target ", target, " at ", bracketed(index_at(shape, i)),
                     " is out of range: there are ", weight[0], " classes");
    if (kept.rows.empty() || std::cmp_not_equal(kept.rows.back(), row)) {
      kept.rows.push_back(static_cast<std::int32_t>(row));
      kept.starts.push_back(kept.targets.size());
    }
    kept.row_of.push_back(static_cast<std::uint32_t>(kept.rows.size() - 1));
    kept.targets.push_back(static_cast<std::int32_t>(i));
  }
  kept.starts.push_back(kept.targets.size());
  return kept;
}

Variable sampled_loss(OpName op, const Variable& x, const Variable& weight,
                      const std::optional<Variable>& bias, const Ids& targets,
                      const std::optional<Ids>& offsets, const NegativeSamples& samples,
                      LossReduction reduction, std::optional<std::int32_t> ignore_index,
                      const LossOfLogits& loss) {
  Unmasked kept =
      unmasked(op, x, weight.shape(), bias, targets, offsets, samples.ids, ignore_index);
  const std::size_t count = kept.targets.size(), rows = kept.rows.size(), width = weight.shape()[1],
                    all_rows = (offsets ? *offsets : targets).size();
  const std::size_t sampled = count == 0 ? 0 : samples.ids.shape().back(), columns = 1 + sampled;
  const bool shared = samples.ids.dimension() == 1, all = rows == all_rows;
  // Positions in `ids`: `own` classes of each target, then the shared samples.
  const std::size_t own = shared ? 1 : columns, owned = count * own;
  const auto ids = std::make_shared<Ids>(Ids::from_shape({owned + (shared ? sampled : 0)}));
  for (std::size_t i = 0; i < count; ++i) {
    const auto target = static_cast<std::size_t>(kept.targets[i]);
    ids->data()[i * own] = targets.data()[target];
    std::copy_n(samples.ids.data() + target * sampled, own - 1, ids->data() + i * own + 1);
  }
  if (shared) std::copy_n(samples.ids.data(), sampled, ids->data() + owned);
  kernels::RowGroups groups(ids->storage(), std::nullopt);
  const RowsAt weights(weight, ids, groups);
  std::optional<RowsAt> biases;
  if (bias) biases.emplace(*bias, ids, groups);

  Tensor picked = empty({all ? 0 : rows, width});
  if (!all) kernels::gather_rows(x.read().data(), width, kept.rows, picked.data());
  const real* const inputs = all ? x.read().data() : picked.data();
  Tensor shared_rows = zeros({shared ? columns : 0, width});  // row 0 stands for the targets
  for (std::size_t j = 0; shared && j < sampled; ++j)
    std::copy_n(weights[owned + j], width, shared_rows.data() + (1 + j) * width);
  const blas::MatrixView shared_matrix{shared_rows.data(), columns, width};
  const bool is_mean = reduction == LossReduction::kMean;
  const real scale = is_mean ? real{1} / static_cast<real>(std::max<std::size_t>(count, 1)) : 1;
  // Each row has a set of shared samples, or each target has a set of its own.
  std::vector<std::size_t> sets(shared ? 0 : count + 1);
  std::iota(sets.begin(), sets.end(), 0);
  if (shared) sets = kept.starts;
  // Logits, then their derivatives. Each set begins with its target, unless samples are shared.
  Tensor slopes = empty({sets.size() - 1, columns});
  Tensor of_targets = full({count + (shared ? sampled : 0)}, 1);
  real* const logit = shared ? of_targets.data() : slopes.data();  // by position in `ids`
  Tensor losses = empty({count}), dx = empty({x.needs_gradient() ? rows : 0, width});
  const Tensor& logs = samples.log_expected_counts;
  const std::size_t a_row = count / std::max<std::size_t>(rows, 1);  // mean number of targets
  const std::size_t block =
      shared ? kSharedBlock : std::max<std::size_t>(kBlock / std::max<std::size_t>(a_row, 1), 1);
  const std::size_t ahead = kernels::rows_ahead(width);
  kernels::parallel_for(
      (rows + block - 1) / block, kernels::row_grain(2 * block * (a_row * own + sampled) * width),
      [&](std::size_t begin, std::size_t end) {
        const std::size_t limit = std::min(end * block, rows);
        std::vector<real> repeats;
        for (std::size_t first = begin * block; first < limit; first += block) {
          const std::size_t last = std::min(first + block, limit);
          const std::size_t from = kept.starts[first], to = kept.starts[last];
          const std::size_t set = shared ? first : from, end_set = shared ? last : to;
          real* const logits = slopes.data() + set * columns;
          if (shared)
            blas::gemm({inputs + first * width, last - first, width},
                       blas::transposed(shared_matrix), {logits, last - first, columns});
          for (std::size_t i = from; i < to; ++i) {
            for (std::size_t at = i * own; at < (i + 1) * own; ++at) {
              if (at + ahead < kept.starts[limit] * own)
                kernels::prefetch_row(weights[at + ahead], width);
              logit[at] = dot(inputs + kept.row_of[i] * width, weights[at], width);
            }
            of_targets.data()[i] = logit[i * own] + (biases ? *(*biases)[i * own] : 0);
          }
          repeats.resize((end_set - set) * columns);
          for (std::size_t s = set; s < end_set; ++s) {
            slopes.data()[s * columns] = 0;
            real* const z = slopes.data() + s * columns + 1;
            real* const repeat = repeats.data() + (s - set) * columns + 1;
            const std::size_t position = shared ? owned : s * own + 1;
            const std::size_t log =
                shared ? 0 : static_cast<std::size_t>(kept.targets[s]) * sampled;
            const std::int32_t* const sample = ids->data() + position;
            for (std::size_t j = 0; biases && j < sampled; ++j) z[j] += *(*biases)[position + j];
            for (std::size_t j = 0; logs.size() > 0 && j < sampled; ++j)
              z[j] -= logs.data()[log + j];
            std::fill_n(repeat, sampled, static_cast<real>(sets[s + 1] - sets[s]));
            for (std::size_t i = sets[s]; i < sets[s + 1]; ++i) {
              const std::int32_t target = ids->data()[i * own];
              if (shared && std::count(sample, sample + sampled, target) == 0) continue;
              for (std::size_t j = 0; j < sampled; ++j)
                if (sample[j] == target && --repeat[j] == 0) z[j] = -kInfinity;
            }
          }
          loss({of_targets.data() + from, logits, repeats.data(),
                std::span(sets).subspan(set, end_set - set + 1), columns},
               scale, losses.data() + from);
          for (std::size_t i = from; i < to; ++i) logit[i * own] = of_targets.data()[i];
          if (dx.size() == 0) continue;
          for (std::size_t row = first; row < last; ++row)
            kernels::sum_terms(
                (kept.starts[row + 1] - kept.starts[row]) * own, width,
                [&, at = kept.starts[row] * own](std::size_t j) { return weights[at + j]; },
                [z = logit + kept.starts[row] * own](const Simd& v, std::size_t j) {
                  return v * Simd(z[j]);
                },
                dx.data() + row * width);
          if (shared)
            blas::gemm({logits, last - first, columns}, shared_matrix,
                       {dx.data() + first * width, last - first, width}, 1);
        }
      });

  const bool is_sum = reduction != LossReduction::kNone;
  Tensor value = zeros(is_sum ? Shape() : Shape(x.shape().begin(), x.shape().end() - 1));
  if (is_sum)
    *value.data() = scale * static_cast<real>(std::accumulate(losses.begin(), losses.end(), 0.0));
  for (std::size_t i = 0; !is_sum && i < count; ++i)
    value.data()[kept.rows[kept.row_of[i]]] += losses.data()[i];
  std::vector<Variable> variables{x, weight};
  if (bias) variables.push_back(*bias);
  return record(
      op, variables, std::move(value),
      [=, groups = std::move(groups), picked = std::move(picked), slopes = std::move(slopes),
       of_targets = std::move(of_targets), dx = std::move(dx), kept = std::move(kept),
       has_bias = bias.has_value()](Backward& node) mutable {
        real* const slope = shared ? of_targets.data() : slopes.data();
        for (std::size_t row = 0; row < rows; ++row) {
          const real factor = node.gradient().data()[is_sum ? 0 : kept.rows[row]];
          if (factor == 1) continue;
          const auto multiply = [factor](real* data, std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) data[i] *= factor;
          };
          multiply(slope, kept.starts[row] * own, kept.starts[row + 1] * own);
          if (shared) multiply(slopes.data(), row * columns, (row + 1) * columns);
          if (dx.size() > 0) multiply(dx.data(), row * width, (row + 1) * width);
        }
        if (node.slot(0)) {
          if (!all) dx = RowGradient({all_rows, width}, kept.rows, std::move(dx)).to_dense();
          node.slot(0).take(reshaped(std::move(dx), node.input_shape(0)));
        }
        // The sums over all rows for shared samples.
        const real* const from = all ? node.input(0).data() : picked.data();
        Tensor sums = empty({shared ? columns : 0, width});
        const blas::MatrixView slope_matrix{slopes.data(), rows, columns};
        if (shared && count > 0 && node.slot(1))
          blas::gemm(blas::transposed(slope_matrix), {from, rows, width},
                     {sums.data(), columns, width});
        if (node.slot(1)) {
          const auto row_at = [=, row = sums.data() + (shared ? width : 0),
                               row_of = kept.row_of.data(),
                               own_32 = static_cast<std::uint32_t>(own)](std::size_t i) {
            return i < owned ? from + row_of[static_cast<std::uint32_t>(i) / own_32] * width
                             : row + (i - owned) * width;
          };
          const auto term = [slope](const Simd& v, std::size_t i) { return v * Simd(slope[i]); };
          node.slot(1).take(RowGradient(node.input_shape(1),
                                        kernels::sum_groups(groups, width, false, row_at, term)));
        }
        if (!has_bias || !node.slot(2)) return;
        if (shared && count > 0) {
          const Tensor ones = full({rows}, 1);
          Tensor totals = empty({columns});
          blas::gemm({ones.data(), 1, rows}, slope_matrix, {totals.data(), 1, columns});
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
      "negative_sampling_loss", x, weight, std::nullopt, targets, options.offsets,
      {negatives, empty({0})}, options.reduction, options.ignore_index,
      [factor](const Logits& logits, real scale, real* losses) {
        // Writes slope · σ(z), and returns log(1 + exp(z)).
        const auto differentiate = [](const auto& v, real* z, Simd slope) {
          const Simd y = v.load(z, -kInfinity), e = exp(-abs(y));
          v.store(select(y >= 0, slope, slope * e) / (e + Simd(real{1})), z);
          return max(y, 0) + log1p(e);
        };
        const std::span starts = logits.starts;
        const std::size_t count = starts.back() - starts.front();
        kernels::map_span(count, logits.targets, std::negate<>(), logits.targets);
        kernels::for_vectors(0, count, [&](const auto& v) {
          v.store(differentiate(v, logits.targets, Simd(-scale)), losses);
        });
        for (std::size_t i = 0; i < logits.size(); ++i) {
          Simd sum(real{0});
          kernels::for_vectors(1, logits.columns, [&, at = i * logits.columns](const auto& v) {
            const Simd repeats = v.load(logits.repeats + at, 0);
            sum += repeats * differentiate(v, logits.sets + at, repeats * Simd(scale * factor));
          });
          losses[starts[i] - starts[0]] += factor * kernels::lanes::sum(sum);
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
  return sampled_loss(kName, x, weight, bias, targets, std::nullopt, samples, options.reduction,
                      options.ignore_index, [](const Logits& logits, real scale, real* losses) {
                        std::array<kernels::ExpSum, kSharedBlock> sums;
                        std::array<real, kSharedBlock> scales;
                        scales.fill(scale);
                        const std::size_t rows = logits.size(), columns = logits.columns;
                        for (std::size_t i = 0; i < rows; ++i)
                          logits.sets[i * columns] = logits.targets[i];
                        kernels::exp_sum_rows(logits.sets, rows, columns, false, sums.data());
                        for (std::size_t i = 0; i < rows; ++i)
                          losses[i] = static_cast<real>(sums[i].above(logits.targets[i]));
                        kernels::log_sum_exp_rows_backward(logits.sets, sums.data(), scales.data(),
                                                           rows, columns, logits.sets);
                        for (std::size_t i = 0; i < rows; ++i)
                          logits.targets[i] = logits.sets[i * columns] - scale;
                      });
}

}  // namespace rowgrad
