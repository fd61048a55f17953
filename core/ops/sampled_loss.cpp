#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
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

// The values of a table, or of a vector, at a list of ids. Values in memory are read in place.
// Others are copied once for each distinct id.
class ValuesAt {
 public:
  ValuesAt(const Variable& table, const std::shared_ptr<const Ids>& ids,
           const kernels::RowGroups& groups)
      : width_(table.shape().size() == 2 ? table.shape()[1] : 1), index_(ids->data()) {
    Parameter* const parameter = table.shape().size() == 2 ? table.parameter() : nullptr;
    if (parameter != nullptr) table.tape().record_lookup(*parameter, ids);
    if (parameter == nullptr) {
      data_ = table.read().data();
    } else if (parameter->is_in_memory() && parameter->deferred() == nullptr) {
      data_ = parameter->value().data();
    } else {
      copies_ = parameter->gathered_rows(groups.indices);
      data_ = copies_.data();
      groups_.resize(ids->size());
      for (std::size_t g = 0; g < groups.indices.size(); ++g)
        for (std::size_t i = groups.starts[g]; i < groups.starts[g + 1]; ++i)
          groups_[groups.position(i)] = static_cast<std::int32_t>(g);
      index_ = groups_.data();
    }
  }

  const real* operator[](std::size_t position) const {
    return data_ + static_cast<std::size_t>(index_[position]) * width_;
  }

 private:
  std::size_t width_;
  const std::int32_t* index_;
  const real* data_;
  Tensor copies_;
  std::vector<std::int32_t> groups_;
};

// Returns a · b. The last vector overlaps the one before, which is faster than a partial vector.
real dot(const real* a, const real* b, std::size_t width) {
  if (width < kLanes) return kernels::sum_span(width, std::multiplies<>(), a, b);
  static constexpr auto kIndex = [] {
    std::array<real, kLanes> index{};
    for (std::size_t i = 0; i < kLanes; ++i) index[i] = static_cast<real>(i);
    return index;
  }();
  const auto product = [a, b](std::size_t i) {
    return Simd::load_unaligned(a + i) * Simd::load_unaligned(b + i);
  };
  const std::size_t last = width - kLanes, repeated = (kLanes - last % kLanes) % kLanes;
  Simd sum = select(Simd::load_unaligned(kIndex.data()) < Simd(repeated), 0, product(last));
  for (std::size_t at = 0; at < last; at += kLanes) sum += product(at);
  return kernels::lanes::sum(sum);
}

// Replaces the logits [rows, columns] of targets (column 0) and samples by the derivatives of
// scale · Σ losses, and writes the loss of each row.
using SampledLoss = std::function<void(real* logits, std::size_t rows, std::size_t columns,
                                       real scale, real* losses)>;

// Targets in a block: few if each has its own samples, so that their rows stay in the L1 cache.
constexpr std::size_t kBlock = 8, kMaxBlock = 64;

constexpr real kInfinity = std::numeric_limits<real>::infinity();

struct SampledLossInputs {
  const Variable& x;
  const Variable& weight;
  const std::optional<Variable>& bias;
  const Ids& targets;
  const Ids& samples;
  const Tensor* log_expected_counts;  // null: all 0
  LossReduction reduction;
  std::optional<std::int32_t> ignore_index;
};

// Returns the indices of unmasked targets.
std::vector<std::int32_t> check_inputs(OpName op, const SampledLossInputs& in) {
  const std::string_view name = op;
  kernels::check_table(name, in.weight.shape());
  const std::size_t classes = in.weight.shape()[0];
  Shape shape(in.targets.shape().begin(), in.targets.shape().end());
  shape.push_back(in.weight.shape()[1]);
  check_argument(in.x.shape() == shape, name, ": x has shape ", bracketed(in.x.shape()),
                 ", expected ", bracketed(shape), " (the targets' shape and the weight's width)");
  const Shape samples(in.samples.shape().begin(), in.samples.shape().end());
  shape.back() = samples.empty() ? 0 : samples.back();
  check_argument(shape.back() > 0 && (samples.size() == 1 || samples == shape), name,
                 ": the samples have shape ", bracketed(samples),
                 ", expected [count] or the targets' shape and a count above 0");
  const Tensor* const counts = in.log_expected_counts;
  check_argument(counts == nullptr || counts->shape() == samples, name,
                 ": log_expected_counts has shape ",
                 bracketed(counts == nullptr ? samples : counts->shape()),
                 ", expected the samples' ", bracketed(samples));
  for (std::size_t i = 0; counts != nullptr && i < in.samples.size(); ++i)
    if (const real count = counts->data()[i]; !std::isfinite(count))
      check_argument(false, name, ": log_expected_counts has an element ", count, " at ",
                     bracketed(index_at(samples, i)), ", expected finite values");
  check_argument(
      !in.bias || in.bias->shape() == Shape({classes}) || in.bias->shape() == Shape({classes, 1}),
      name, ": bias has shape ", bracketed(in.bias ? in.bias->shape() : Shape()), ", expected [",
      classes, "] or [", classes, ", 1]");
  kernels::check_ids(name, in.samples.storage(), samples, classes);
  std::vector<std::int32_t> rows;
  rows.reserve(in.targets.size());
  shape.pop_back();
  for (std::size_t i = 0; i < in.targets.size(); ++i) {
    const std::int32_t target = in.targets.data()[i];
    if (target == in.ignore_index) continue;
    if (target < 0 || static_cast<std::size_t>(target) >= classes)
      check_argument(false, name, ": target ", target, " at ", bracketed(index_at(shape, i)),
                     " is out of range: there are ", classes, " classes");
    rows.push_back(static_cast<std::int32_t>(i));
  }
  return rows;
}

Variable sampled_loss(OpName op, const SampledLossInputs& in, const SampledLoss& loss) {
  const std::vector<std::int32_t> rows = check_inputs(op, in);
  const std::size_t count = rows.size(), width = in.weight.shape()[1];
  const std::size_t samples = count == 0 ? 0 : in.samples.shape().back(), columns = 1 + samples;
  const bool shared = in.samples.dimension() == 1;
  const std::size_t own = shared ? 1 : columns;  // a target's own classes; others are shared
  // Positions: the own classes of each target, then the shared samples.
  const auto ids = std::make_shared<Ids>(Ids::from_shape({count * own + (shared ? samples : 0)}));
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    ids->data()[i * own] = in.targets.data()[row];
    std::copy_n(in.samples.data() + row * samples, own - 1, ids->data() + i * own + 1);
  }
  if (shared) std::copy_n(in.samples.data(), samples, ids->data() + count);
  kernels::RowGroups groups(ids->storage(), std::nullopt);
  const ValuesAt weights(in.weight, ids, groups);
  const std::optional<ValuesAt> biases =
      in.bias ? std::optional<ValuesAt>(std::in_place, *in.bias, ids, groups) : std::nullopt;

  const bool all = count == in.targets.size();
  Tensor picked = empty({all ? 0 : count, width});
  if (!all) kernels::gather_rows(in.x.read().data(), width, rows, picked.data());
  const real* const x = all ? in.x.read().data() : picked.data();
  Tensor slopes = empty({count, columns});                    // first, logits
  Tensor shared_rows = zeros({shared ? columns : 0, width});  // row 0 stands for the targets
  for (std::size_t j = 1; j < shared_rows.shape()[0]; ++j)
    std::copy_n(weights[count + j - 1], width, shared_rows.data() + j * width);
  const real scale = in.reduction == LossReduction::kMean
                         ? real{1} / static_cast<real>(std::max<std::size_t>(count, 1))
                         : real{1};
  Tensor losses = empty({count});
  Tensor dx = empty({in.x.needs_gradient() ? count : 0, width});
  const blas::MatrixView shared_matrix{shared_rows.data(), columns, width};
  const std::size_t block = shared ? kMaxBlock : kBlock, ahead = kernels::rows_ahead(width);
  kernels::parallel_for(
      (count + block - 1) / block, kernels::row_grain(2 * block * columns * width),
      [&](std::size_t begin, std::size_t end) {
        const std::size_t limit = std::min(end * block, count) * own;
        for (std::size_t first = begin * block; first * own < limit; first += block) {
          const std::size_t last = std::min(first + block, count);
          real* const block_slopes = slopes.data() + first * columns;
          if (shared)
            blas::gemm({x + first * width, last - first, width}, blas::transposed(shared_matrix),
                       {block_slopes, last - first, columns});
          for (std::size_t i = first; i < last; ++i) {
            real* const z = slopes.data() + i * columns;
            for (std::size_t j = 0; j < own; ++j) {
              const std::size_t at = i * own + j;
              if (at + ahead < limit) kernels::prefetch_row(weights[at + ahead], width);
              z[j] = dot(x + i * width, weights[at], width);
            }
            const std::int32_t target = ids->data()[i * own];
            const std::size_t position = shared ? count : i * own + 1;
            const std::int32_t* const sampled = ids->data() + position;
            if (biases) z[0] += *(*biases)[i * own];
            for (std::size_t j = 0; biases && j < samples; ++j)
              z[1 + j] += *(*biases)[position + j];
            if (in.log_expected_counts) {
              const real* const counts = in.log_expected_counts->data() +
                                         (shared ? 0 : static_cast<std::size_t>(rows[i]) * samples);
              for (std::size_t j = 0; j < samples; ++j) z[1 + j] -= counts[j];
            }
            for (std::size_t j = 0; j < samples; ++j)
              z[1 + j] = sampled[j] == target ? -kInfinity : z[1 + j];
          }
          loss(block_slopes, last - first, columns, scale, losses.data() + first);
          for (std::size_t i = first; i < last && dx.size() > 0; ++i)
            kernels::sum_terms(
                own, width, [&, i](std::size_t j) { return weights[i * own + j]; },
                [z = slopes.data() + i * columns](const Simd& v, std::size_t j) {
                  return v * Simd(z[j]);
                },
                dx.data() + i * width);
          if (shared && dx.size() > 0)
            blas::gemm({block_slopes, last - first, columns}, shared_matrix,
                       {dx.data() + first * width, last - first, width}, 1);
        }
      });
  const bool keeps_losses = in.reduction == LossReduction::kNone;
  double total = 0;
  for (const real value : losses) total += value;
  Tensor value = scalar(static_cast<real>(total * static_cast<double>(scale)));
  if (keeps_losses) {
    value = zeros({in.targets.shape().begin(), in.targets.shape().end()});
    for (std::size_t i = 0; i < count; ++i) value.data()[rows[i]] = losses.data()[i];
  }
  std::vector<Variable> inputs{in.x, in.weight};
  if (in.bias) inputs.push_back(*in.bias);
  return record(
      op, inputs, std::move(value),
      [=, groups = std::move(groups), picked = std::move(picked), slopes = std::move(slopes),
       dx = std::move(dx), targets = in.targets.size(),
       has_bias = in.bias.has_value()](Backward& node) mutable {
        const real* const upstream = node.gradient().data();
        for (std::size_t i = 0; i < count; ++i) {
          const real factor = upstream[keeps_losses ? rows[i] : 0];
          if (factor == 1) continue;
          for (std::size_t j = 0; j < columns; ++j) slopes.data()[i * columns + j] *= factor;
          for (std::size_t j = 0; j < width && dx.size() > 0; ++j)
            dx.data()[i * width + j] *= factor;
        }
        if (node.slot(0)) {
          if (!all) dx = RowGradient({targets, width}, rows, std::move(dx)).to_dense();
          node.slot(0).take(reshaped(std::move(dx), node.input_shape(0)));
        }
        // The derivatives by position: 1 for the shared rows, which are sums over all targets.
        std::vector<real> of_positions;
        const real* slope = slopes.data();
        if (shared) {
          of_positions.resize(count + samples, 1);
          for (std::size_t i = 0; i < count; ++i) of_positions[i] = slope[i * columns];
          slope = of_positions.data();
        }
        if (node.slot(1)) {
          const real* const from = all ? node.input(0).data() : picked.data();
          Tensor sums = empty({shared ? columns : 0, width});
          if (shared && count > 0)
            blas::gemm(blas::transposed({slopes.data(), count, columns}), {from, count, width},
                       {sums.data(), columns, width});
          const auto row_at = [=, owned = count * own, shared_row = sums.data() + width,
                               own_32 = static_cast<std::uint32_t>(own)](std::size_t i) {
            return i < owned ? from + static_cast<std::uint32_t>(i) / own_32 * width
                             : shared_row + (i - owned) * width;
          };
          node.slot(1).take(RowGradient(node.input_shape(1),
                                        kernels::sum_groups(groups, width, false, row_at,
                                                            [slope](const Simd& v, std::size_t i) {
                                                              return v * Simd(slope[i]);
                                                            })));
        }
        if (has_bias && node.slot(2)) {
          for (std::size_t j = 0; shared && j < samples; ++j) {
            double sum = 0;
            for (std::size_t i = 0; i < count; ++i) sum += slopes.data()[i * columns + 1 + j];
            of_positions[count + j] = static_cast<real>(sum);
          }
          const Shape& shape = node.input_shape(2);
          RowGradient gradient({shape[0], 1}, kernels::sum_groups(
                                                  std::move(groups), 1, false,
                                                  [slope](std::size_t i) { return slope + i; },
                                                  [](const Simd& v, std::size_t) { return v; }));
          if (shape.size() == 2)
            node.slot(2).take(std::move(gradient));
          else
            node.slot(2).take(reshaped(gradient.to_dense(), shape));
        }
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
      "negative_sampling_loss",
      {x, weight, std::nullopt, targets, negatives, nullptr, options.reduction,
       options.ignore_index},
      [factor](real* logits, std::size_t rows, std::size_t columns, real scale, real* losses) {
        std::array<real, kMaxBlock> of_targets;
        for (std::size_t i = 0; i < rows; ++i) of_targets[i] = -logits[i * columns];
        // Writes the derivative slope · σ(z) of slope · log(1 + exp(z)), which is the sum of the
        // results, max(z, 0) and log(1 + e).
        const auto differentiate = [](auto v, real* z, Simd slope) {
          const Simd y = v.load(z, -kInfinity), e = exp(-abs(y));
          v.store(select(y >= 0, slope, slope * e) / (e + Simd(real{1})), z);
          return std::pair(max(y, 0), e);
        };
        kernels::for_vectors(0, rows, [&](const auto& v) {
          const auto [linear, e] = differentiate(v, of_targets.data(), Simd(-scale));
          v.store(linear + log1p(e), losses);
        });
        constexpr std::size_t kMost = 64 * kLanes;  // samples whose product cannot overflow
        for (std::size_t i = 0; i < rows; ++i) {
          for (std::size_t first = 1; first < columns; first += kMost) {
            Simd sum(real{0}), product(real{0});  // product: (1 + e) (1 + e') … − 1
            kernels::for_vectors(first, std::min(first + kMost, columns), [&](const auto& v) {
              const auto [linear, e] = differentiate(v, logits + i * columns, Simd(scale * factor));
              sum += linear;
              product = fma(product, e, product + e);
            });
            losses[i] += factor * kernels::lanes::sum(sum + log1p(product));
          }
          logits[i * columns] = of_targets[i];
        }
      });
}

Variable sampled_softmax_loss(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const NegativeSamples& samples,
                              const SampledSoftmaxOptions& options) {
  return sampled_loss(
      "sampled_softmax_loss",
      {x, weight, bias, targets, samples.ids, &samples.log_expected_counts, options.reduction,
       options.ignore_index},
      [](real* logits, std::size_t rows, std::size_t columns, real scale, real* losses) {
        std::array<kernels::ExpSum, kMaxBlock> sums;
        std::array<real, kMaxBlock> weights;
        weights.fill(1);
        const std::array<std::int32_t, kMaxBlock> first{};  // column 0 has the targets
        kernels::exp_sum_rows(logits, rows, columns, false, sums.data());
        for (std::size_t i = 0; i < rows; ++i)
          losses[i] = static_cast<real>(sums[i].above(logits[i * columns]));
        kernels::cross_entropy_rows_backward(logits, sums.data(), first.data(), weights.data(),
                                             scale, rows, columns, logits);
      });
}

}  // namespace rowgrad
