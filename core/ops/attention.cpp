#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/attention.hpp>
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/selection.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

using kernels::Attention;
using kernels::HeadView;

constexpr OpName kCausal = "causal_attention";

// Returns the heads of an array [batch, length, heads · width].
template <class Number>
HeadView<Number> heads_of(const Attention& call, Number* data, std::size_t length) {
  const std::size_t row = call.heads * call.width;
  return {data, row, length * row};
}

// Returns the arrays of an op's inputs: q, k and v, then the optional bias, then the optional
// relative keys and values. array(i) returns the data of input i.
template <class Number>
kernels::AttentionOperands<Number> arrays_of(const Attention& call, std::size_t inputs,
                                             const auto& array) {
  const bool relative = call.relative_distances > 0;
  return {.q = heads_of<Number>(call, array(0), call.queries),
          .k = heads_of<Number>(call, array(1), call.keys),
          .v = heads_of<Number>(call, array(2), call.keys),
          .distance_bias = call.distances > 0 ? array(3) : nullptr,
          .relative_keys = relative ? array(inputs - 2) : nullptr,
          .relative_values = relative ? array(inputs - 1) : nullptr};
}

void check_distances(std::string_view caller, const AttentionOptions& options, std::size_t width,
                     std::size_t keys) {
  if (options.distance_bias) {
    const Shape& bias = options.distance_bias->shape();
    check_argument(bias.size() == 2 && bias[0] == options.heads && bias[1] >= keys, caller,
                   ": distance_bias has shape ", bracketed(bias), ", expected [", options.heads,
                   ", distances] with at least ", keys, " distances, one per key");
  }
  if (options.relative) {
    const Shape& of_keys = options.relative->keys.shape();
    const Shape& of_values = options.relative->values.shape();
    check_argument(of_keys.size() == 2 && (of_keys[0] > 0 || keys == 0) && of_keys[1] == width,
                   caller, ": relative keys have shape ", bracketed(of_keys),
                   ", expected [distances, ", width, "]");
    check_argument(of_values == of_keys, caller, ": relative values have shape ",
                   bracketed(of_values), ", expected the shape of the keys, ", bracketed(of_keys));
  }
}

void check_key_lengths(std::string_view op, const AttentionOptions& options, const Shape& of_k) {
  const std::vector<std::size_t>& lengths = options.key_lengths;
  check_argument(lengths.empty() || lengths.size() == of_k[0], op, ": key_lengths has size ",
                 lengths.size(), ", expected ", of_k[0], ", one per row of the batch");
  for (std::size_t i = 0; i < lengths.size(); ++i)
    check_argument(lengths[i] > 0 && lengths[i] <= of_k[1], op, ": key_lengths[", i, "] is ",
                   lengths[i], ", expected 1 to ", of_k[1], ", the number of keys");
}

Attention checked_call(std::string_view op, bool causal, const Shape& of_q, const Shape& of_k,
                       const AttentionOptions& options) {
  const std::size_t heads = options.heads;
  check_argument(heads > 0, op, ": heads is 0, expected at least 1");
  check_argument(of_q.size() == 3 && of_q[2] > 0 && of_q[2] % heads == 0, op, ": q has shape ",
                 bracketed(of_q), ", expected [batch, queries, heads · width] for ", heads,
                 " heads");
  const std::size_t least = causal ? of_q[1] : std::min<std::size_t>(of_q[1], 1);
  check_argument(of_k.size() == 3 && of_k[0] == of_q[0] && of_k[1] >= least && of_k[2] == of_q[2],
                 op, ": k has shape ", bracketed(of_k), ", expected [", of_q[0], ", keys, ",
                 of_q[2], "] with at least ", least, least == 1 ? " key" : " keys",
                 causal ? ", one per query" : "");
  check_argument(options.dropout_p >= 0 && options.dropout_p <= 1, op, ": dropout_p is ",
                 options.dropout_p, ", expected 0 to 1");
  check_argument(causal || (!options.distance_bias && !options.relative), op,
                 ": distance_bias or relative is set, expected neither (use causal_attention)");
  check_distances(op, options, of_q[2] / heads, of_k[1]);
  check_key_lengths(op, options, of_k);
  return {.batch = of_q[0],
          .heads = heads,
          .width = of_q[2] / heads,
          .queries = of_q[1],
          .keys = of_k[1],
          .causal = causal,
          .distances = options.distance_bias ? options.distance_bias->shape()[1] : 0,
          .relative_distances = options.relative ? options.relative->keys.shape()[0] : 0,
          .key_lengths = options.key_lengths};
}

// The keys and values of a cache. They end with k and v, and are read instead of k and v.
struct Cached {
  std::size_t length;
  const real* keys;
  const real* values;
};

Variable attend(OpName op, bool causal, const Variable& q, const Variable& k, const Variable& v,
                const AttentionOptions& options, const Cached* cached = nullptr) {
  Shape of_k = k.shape();
  if (cached != nullptr) of_k[1] = cached->length;
  Attention call = checked_call(op, causal, q.shape(), of_k, options);
  const std::string_view name = op;
  check_argument(v.shape() == k.shape(), name, ": v has shape ", bracketed(v.shape()),
                 ", expected the shape of k, ", bracketed(k.shape()));
  std::vector<Variable> inputs{q, k, v};
  if (options.distance_bias) inputs.push_back(*options.distance_bias);
  if (options.relative)
    inputs.insert(inputs.end(), {options.relative->keys, options.relative->values});
  bool for_backward = false;
  for (const Variable& input : inputs) {
    check_state(&input.tape() == &q.tape(), name, ": a variable belongs to another tape");
    for_backward |= input.needs_gradient();
  }
  if (const double p = options.dropout_p; p > 0) {
    Random& random = q.tape().random(op);
    const Shape weights{call.batch, call.heads, call.queries, call.keys};
    call.mask = kernels::draw_dropout_mask(random, element_count(weights, op), p);
    call.mask_factor = static_cast<real>(p < 1 ? 1 / (1 - p) : 0);
  }
  const Shape rows{for_backward ? call.batch : 0, call.heads, call.queries};
  kernels::SoftmaxStats softmax{empty(rows), empty(rows)};

  Tensor value = empty(q.shape());
  call.inputs = arrays_of<const real>(call, inputs.size(), [&](std::size_t i) {
    if (cached != nullptr && i == 1) return cached->keys;
    if (cached != nullptr && i == 2) return cached->values;
    return inputs[i].read().data();
  });
  kernels::attention_forward(call, heads_of(call, value.data(), call.queries),
                             for_backward ? &softmax : nullptr);
  auto rule = [call = std::move(call), softmax = std::move(softmax),
               count = inputs.size()](Backward& node) mutable {
    std::array<Tensor, 6> gradients;
    for (std::size_t i = 0; i < count; ++i)
      if (node.slot(i)) gradients[i] = empty(node.input_shape(i));
    const auto to = [&](std::size_t i) { return node.slot(i) ? gradients[i].data() : nullptr; };
    call.inputs =
        arrays_of<const real>(call, count, [&](std::size_t i) { return node.input(i).data(); });
    kernels::attention_backward(call, softmax, heads_of(call, node.output().data(), call.queries),
                                heads_of(call, node.gradient().data(), call.queries),
                                arrays_of<real>(call, count, to));
    for (std::size_t i = 0; i < count; ++i) node.slot(i).take(std::move(gradients[i]));
  };
  return record(op, inputs, std::move(value), std::move(rule));
}

}  // namespace

Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionOptions& options, KeyValueCache* cache) {
  if (cache == nullptr) return attend(kCausal, true, q, k, v, options);
  constexpr const char* kOp = "causal_attention with a cache";
  const std::size_t capacity = cache->keys_.shape()[0];
  const std::size_t width = cache->keys_.shape()[1];
  check_state(q.tape().is_inference(), kOp, ": the tape is not an inference tape");
  check_argument(q.shape().size() == 3 && q.shape()[0] == 1 && q.shape()[2] == width, kOp,
                 ": q has shape ", bracketed(q.shape()), ", expected [1, length, ", width, "]");
  check_argument(k.shape() == q.shape() && v.shape() == q.shape(), kOp, ": k and v have shapes ",
                 bracketed(k.shape()), " and ", bracketed(v.shape()), ", expected the shape of q, ",
                 bracketed(q.shape()));
  check_argument(options.dropout_p == 0, kOp, ": dropout_p is ", options.dropout_p, ", expected 0");
  check_argument(options.key_lengths.empty(), kOp, ": key_lengths is set, expected none");
  const std::size_t length = cache->length_ + q.shape()[1];
  const std::size_t seen = std::min(length, cache->window_);
  check_argument(length - cache->first_ <= capacity, kOp, ": position ", length - 1,
                 " is past the end of the cache at ", cache->first_ + capacity,
                 ", expected an earlier call to make_room()");
  check_argument(seen == length || q.shape()[1] == 1, kOp, ": q has ", q.shape()[1],
                 " queries past the window of ", cache->window_, ", expected 1");
  const std::size_t next = (cache->length_ - cache->first_) * width;
  std::copy_n(k.read().data(), k.value().size(), cache->keys_.data() + next);
  std::copy_n(v.read().data(), v.value().size(), cache->values_.data() + next);
  const std::size_t oldest = (length - seen - cache->first_) * width;
  const Cached cached{seen, cache->keys_.data() + oldest, cache->values_.data() + oldest};
  const Variable result = attend(kCausal, true, q, k, v, options, &cached);
  cache->length_ = length;  // last, as the code above may throw
  return result;
}

Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionOptions& options) {
  return attend("attention", false, q, k, v, options);
}

Tensor attention_weights(const Variable& q, const Variable& k, const AttentionOptions& options) {
  const Attention call = checked_call(kCausal, true, q.shape(), k.shape(), options);
  Tape tape(Tape::kInference);
  const auto by_head = [&](const Variable& x) {
    const Variable heads =
        reshape(tape.constant(x.value()), {call.batch, x.shape()[1], call.heads, call.width});
    return transpose(heads, 1, 2);
  };
  const auto products = [&](const Variable& keys) {
    return matmul(by_head(q), transpose(keys)) / std::sqrt(static_cast<real>(call.width));
  };
  Tensor unseen = empty({call.batch, 1, call.queries, call.keys});
  Tensor bias = zeros({call.batch, call.heads, call.queries, call.keys});
  Tensor relative;  // [batch, heads, queries, distances]
  if (options.relative) relative = products(tape.constant(options.relative->keys.value())).value();
  for (std::size_t i = 0; i < call.queries; ++i) {
    const std::size_t position = i + call.keys - call.queries;
    for (std::size_t b = 0; b < call.batch; ++b)
      for (std::size_t j = 0; j < call.keys; ++j)
        unseen(b, 0, i, j) =
            j > position || (!call.key_lengths.empty() && j >= call.key_lengths[b]);
    for (std::size_t distance = 0; distance <= position; ++distance)
      for (std::size_t b = 0; b < call.batch; ++b)
        for (std::size_t h = 0; h < call.heads; ++h) {
          real& sum = bias(b, h, i, position - distance);
          if (options.distance_bias) sum += options.distance_bias->value()(h, distance);
          if (!options.relative) continue;
          const std::size_t farthest = relative.shape()[3] - 1;
          sum += relative(b, h, i, farthest - std::min(distance, farthest));
        }
  }
  const Variable scores = products(by_head(k)) + tape.constant(std::move(bias));
  return softmax(masked_fill(scores, tape.constant(std::move(unseen)),
                             -std::numeric_limits<real>::infinity()))
      .value();
}

KeyValueCache::KeyValueCache(std::size_t window, std::size_t width)
    : keys_(empty({window, width})), values_(empty({window, width})), window_(window) {}

// The new capacity is at least twice the window, so on average, each position is copied about once.
void KeyValueCache::make_room(std::size_t count) {
  const std::size_t held = length_ - first_;
  if (held + count <= keys_.shape()[0]) return;
  const std::size_t width = keys_.shape()[1];
  const std::size_t kept = std::min(held, window_);
  const Shape shape{std::max(2 * window_, kept + count), width};
  Tensor keys = empty(shape), values = empty(shape);
  std::copy_n(keys_.data() + (held - kept) * width, kept * width, keys.data());
  std::copy_n(values_.data() + (held - kept) * width, kept * width, values.data());
  keys_ = std::move(keys);
  values_ = std::move(values);
  first_ = length_ - kept;
}

void KeyValueCache::truncate(std::size_t length) {
  check_argument(length <= length_, "KeyValueCache::truncate: length is ", length,
                 ", expected at most ", length_, ", the number of positions");
  check_argument(length >= first_ + std::min(length, window_),
                 "KeyValueCache::truncate: length is ", length, ", expected at least ",
                 first_ + window_, ": positions before ", first_, " were discarded");
  length_ = length;
}

}  // namespace rowgrad
