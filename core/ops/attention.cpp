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
using kernels::ScoreView;

constexpr OpName kCausal = "causal_attention";

// Returns the heads of an array [batch, length, heads / group · width].
template <class Number>
HeadView<Number> heads_of(const Attention& call, Number* data, std::size_t length,
                          std::size_t group = 1) {
  const std::size_t row = call.heads / group * call.width;
  return {data, row, length * row, group};
}

// Returns the scores of an array whose shape broadcasts to [batch, heads, queries, keys].
template <class Number>
ScoreView<Number> scores_of(Number* data, const Shape& shape) {
  ScoreView<Number> view{data};
  std::size_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t extent = shape[shape.size() - 1 - i];
    if (extent > 1) view.strides[3 - i] = stride;
    stride *= extent;
  }
  return view;
}

// Returns the arrays of an op's inputs: q, k and v, then the optional distance bias, then the
// optional relative keys and values, then the optional bias. array(i) returns the data of input i.
// `shape` is the shape of the bias.
template <class Number>
kernels::AttentionOperands<Number> arrays_of(const Attention& call, std::size_t group,
                                             const Shape* shape, const auto& array) {
  const bool relative = call.relative_distances > 0;
  const std::size_t tables = call.distances > 0 ? 4 : 3;  // index of the relative keys
  return {.q = heads_of<Number>(call, array(0), call.queries),
          .k = heads_of<Number>(call, array(1), call.keys, group),
          .v = heads_of<Number>(call, array(2), call.keys, group),
          .distance_bias = call.distances > 0 ? array(3) : nullptr,
          .bias = shape != nullptr ? scores_of<Number>(array(tables + 2 * relative), *shape)
                                   : ScoreView<Number>{},
          .relative_keys = relative ? array(tables) : nullptr,
          .relative_values = relative ? array(tables + 1) : nullptr};
}

// Returns the bias, or a bias of 0 and −∞ for the mask.
std::optional<Variable> bias_of(std::string_view op, Tape& tape, const AttentionOptions& options,
                                const Shape& scores) {
  if (!options.mask && !options.bias) return std::nullopt;
  check_argument(!options.mask || !options.bias, op,
                 ": mask and bias are set, expected one of them; call masked_fill() on the bias");
  const Shape& shape = options.mask ? options.mask->shape() : options.bias->shape();
  bool fits = shape.size() <= 4;
  for (std::size_t i = 1; fits && i <= shape.size(); ++i)
    fits = shape[shape.size() - i] == 1 || shape[shape.size() - i] == scores[4 - i];
  check_argument(fits, op, options.mask ? ": mask" : ": bias", " has shape ", bracketed(shape),
                 ", expected a shape that broadcasts to ", bracketed(scores),
                 ", [batch, heads, queries, keys]");
  if (options.bias) return options.bias;
  Tensor bias = *options.mask;
  for (real& value : bias) {
    check_argument(value == 0 || value == 1, op, ": mask has the value ", value,
                   ", expected 0 or 1 (pass values to add as a bias)");
    value = value == 0 ? -std::numeric_limits<real>::infinity() : real{0};
  }
  return tape.constant(std::move(bias));
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

// Returns the number of heads of q that share a head of k and v. Requires: checked options.
std::size_t group_of(const AttentionOptions& options) {
  return options.heads / options.key_value_heads.value_or(options.heads);
}

Attention checked_call(std::string_view op, bool causal, const Shape& of_q, const Shape& of_k,
                       const AttentionOptions& options) {
  const std::size_t heads = options.heads;
  const std::size_t of_keys = options.key_value_heads.value_or(heads);
  check_argument(heads > 0, op, ": heads is 0, expected at least 1");
  check_argument(of_q.size() == 3 && of_q[2] > 0 && of_q[2] % heads == 0, op, ": q has shape ",
                 bracketed(of_q), ", expected [batch, queries, heads · width] for ", heads,
                 " heads");
  check_argument(of_keys > 0 && heads % of_keys == 0, op, ": key_value_heads is ", of_keys,
                 ", expected a number that divides heads, ", heads);
  const std::size_t width = of_q[2] / heads * of_keys;
  const std::size_t least = causal ? of_q[1] : std::min<std::size_t>(of_q[1], 1);
  check_argument(of_k.size() == 3 && of_k[0] == of_q[0] && of_k[1] >= least && of_k[2] == width, op,
                 ": k has shape ", bracketed(of_k), ", expected [", of_q[0], ", keys, ", width,
                 "] with at least ", least, least == 1 ? " key" : " keys",
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

// Returns the shape of the gradient of a bias before it is summed over heads, and over keys that
// share an element.
Shape scores_by_head(const Attention& call, const Shape& of_bias) {
  const auto extent = [&](std::size_t from_end, std::size_t all) {
    return from_end > of_bias.size() || of_bias[of_bias.size() - from_end] == 1 ? 1 : all;
  };
  return {extent(4, call.batch), call.heads, extent(2, call.queries), call.keys};
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
  const Shape weights{call.batch, call.heads, call.queries, call.keys};
  const std::size_t group = group_of(options);
  std::vector<Variable> inputs{q, k, v};
  if (options.distance_bias) inputs.push_back(*options.distance_bias);
  if (options.relative)
    inputs.insert(inputs.end(), {options.relative->keys, options.relative->values});
  const std::optional<Variable> bias = bias_of(name, q.tape(), options, weights);
  if (bias) inputs.push_back(*bias);
  bool for_backward = false;
  for (const Variable& input : inputs) {
    check_state(&input.tape() == &q.tape(), name, ": a variable belongs to another tape");
    for_backward |= input.needs_gradient();
  }
  if (const double p = options.dropout_p; p > 0) {
    Random& random = q.tape().random(op);
    call.mask = kernels::draw_dropout_mask(random, element_count(weights, op), p);
    call.mask_factor = static_cast<real>(p < 1 ? 1 / (1 - p) : 0);
  }
  const Shape rows{for_backward ? call.batch : 0, call.heads, call.queries};
  kernels::SoftmaxStats softmax{empty(rows), empty(rows)};

  Tensor value = empty(q.shape());
  const Shape* const bias_shape = bias ? &bias->shape() : nullptr;
  call.inputs = arrays_of<const real>(call, group, bias_shape, [&](std::size_t i) {
    if (cached != nullptr && i == 1) return cached->keys;
    if (cached != nullptr && i == 2) return cached->values;
    return inputs[i].read().data();
  });
  kernels::attention_forward(call, heads_of(call, value.data(), call.queries),
                             for_backward ? &softmax : nullptr);
  auto rule = [call = std::move(call), softmax = std::move(softmax), group, count = inputs.size(),
               has_bias = bias.has_value()](Backward& node) mutable {
    const Shape of_bias = has_bias ? node.input_shape(count - 1) : Shape{};
    // The gradients of k, v and the bias have an element for each head, until they are summed.
    const Shape grouped{call.batch * call.keys, call.heads / group, group, call.width};
    const Shape by_head = scores_by_head(call, of_bias);
    std::array<Tensor, 7> gradients;
    for (std::size_t i = 0; i < count; ++i) {
      if (!node.slot(i)) continue;
      const bool is_bias = has_bias && i + 1 == count;
      gradients[i] =
          is_bias ? zeros(by_head) : empty(i == 1 || i == 2 ? grouped : node.input_shape(i));
    }
    const auto to = [&](std::size_t i) { return node.slot(i) ? gradients[i].data() : nullptr; };
    const auto from = [&](std::size_t i) { return node.input(i).data(); };
    call.inputs = arrays_of<const real>(call, group, has_bias ? &of_bias : nullptr, from);
    kernels::attention_backward(call, softmax, heads_of(call, node.output().data(), call.queries),
                                heads_of(call, node.gradient().data(), call.queries),
                                arrays_of<real>(call, 1, has_bias ? &by_head : nullptr, to));
    Shape of_group = grouped;
    of_group[2] = 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (!node.slot(i)) continue;
      const Shape& shape = node.input_shape(i);
      const Shape& summed = i == 1 || i == 2 ? of_group : shape;
      node.slot(i).take(reshaped(kernels::sum_to(std::move(gradients[i]), summed), shape));
    }
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
  check_argument(q.shape().size() == 3 && q.shape()[0] == 1, kOp, ": q has shape ",
                 bracketed(q.shape()), ", expected [1, length, heads · width]");
  const Shape next_keys{1, q.shape()[1], width};
  check_argument(k.shape() == next_keys && v.shape() == next_keys, kOp, ": k and v have shapes ",
                 bracketed(k.shape()), " and ", bracketed(v.shape()), ", expected ",
                 bracketed(next_keys), " for the cache and the length of q");
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
  const std::size_t group = group_of(options);
  const auto by_head = [&](const Variable& x, std::size_t in_group) {  // [batch, group, head, …]
    const Variable heads =
        reshape(tape.constant(x.value()),
                {call.batch, x.shape()[1], call.heads / group, in_group, call.width});
    return permute(heads, {0, 2, 3, 1, 4});
  };
  const auto products = [&](const Variable& keys) {  // [batch, heads, queries, …]
    const Variable scores = matmul(by_head(q, group), transpose(keys));
    return reshape(scores, {call.batch, call.heads, call.queries, scores.shape()[4]}) /
           std::sqrt(static_cast<real>(call.width));
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
  Variable scores = products(by_head(k, 1)) + tape.constant(std::move(bias));
  const auto added = bias_of(kCausal, tape, options, scores.shape());
  if (added) scores = scores + tape.constant(added->value());
  constexpr real kNever = -std::numeric_limits<real>::infinity();
  scores = masked_fill(scores, tape.constant(std::move(unseen)), kNever);
  Tensor weights = softmax(scores).value();
  for (std::size_t row = 0; added && row < weights.size(); row += call.keys) {
    const real* of_row = scores.value().data() + row;
    if (std::all_of(of_row, of_row + call.keys, [](real score) { return score == kNever; }))
      std::fill_n(weights.data() + row, call.keys, real{0});
  }
  return weights;
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
