#include <algorithm>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/attention.hpp>
#include <rowgrad/core/ops/key_value_cache.hpp>

namespace rowgrad {

KeyValueCache::KeyValueCache(std::size_t capacity, std::size_t width)
    : keys_(empty({capacity, width})), values_(empty({capacity, width})) {}

void KeyValueCache::truncate(std::size_t length) {
  check_argument(length <= length_, "KeyValueCache::truncate: length is ", length,
                 ", but there are ", length_, " positions");
  length_ = length;
}

Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionOptions& options, KeyValueCache& cache) {
  constexpr const char* kOp = "causal_attention with a cache";
  const std::size_t capacity = cache.keys_.shape()[0];
  const std::size_t width = cache.keys_.shape()[1];
  const std::size_t heads = options.heads;
  check_state(q.tape().is_inference(), kOp, ": the tape is not for inference");
  check_argument(q.shape().size() == 3 && q.shape()[0] == 1 && q.shape()[2] == width, kOp,
                 ": q has shape ", bracketed(q.shape()), ", expected [1, length, ", width, "]");
  check_argument(k.shape() == q.shape() && v.shape() == q.shape(), kOp, ": k and v have shapes ",
                 bracketed(k.shape()), " and ", bracketed(v.shape()), ", expected that of q, ",
                 bracketed(q.shape()));
  check_argument(heads > 0 && width % heads == 0, kOp, ": ", heads, " heads do not divide ", width,
                 " columns");
  check_argument(options.dropout_p == 0, kOp, ": dropout_p is ", options.dropout_p, ", expected 0");
  check_argument(options.key_lengths.empty(), kOp, ": key_lengths are for a batch of texts");
  const std::size_t added = q.shape()[1];
  const std::size_t length = cache.length_ + added;
  check_argument(length <= capacity, kOp, ": position ", length - 1, " is past the ", capacity,
                 " that there is room for");
  check_distances(kOp, options, width / heads, length);

  const auto& bias = options.distance_bias;
  const auto& relative = options.relative;
  Tensor value = empty(q.shape());
  std::copy_n(k.value().data(), added * width, cache.keys_.data() + cache.length_ * width);
  std::copy_n(v.value().data(), added * width, cache.values_.data() + cache.length_ * width);
  kernels::attention_forward(
      {.batch = 1,
       .heads = heads,
       .width = width / heads,
       .queries = added,
       .keys = length,
       .q = {q.value().data(), width, added * width},
       .k = {cache.keys_.data(), width, length * width},
       .v = {cache.values_.data(), width, length * width},
       .distance_bias = bias ? bias->value().data() : nullptr,
       .distances = bias ? bias->shape()[1] : 0,
       .relative_keys = relative ? relative->keys.value().data() : nullptr,
       .relative_values = relative ? relative->values.value().data() : nullptr,
       .relative_distances = relative ? relative->keys.shape()[0] : 0},
      {value.data(), width, added * width}, nullptr);
  const Variable result = q.tape().constant(std::move(value));
  cache.length_ = length;  // after all that may fail
  return result;
}

}  // namespace rowgrad
