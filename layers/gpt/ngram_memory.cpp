#include <cmath>
#include <utility>

#include <rowgrad/core/ops/convolution.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/layers/gpt/ngram_memory.hpp>

namespace rowgrad {
namespace {

Submodule<Embedding> make_table(Layer& owner, const NgramHash& hash,
                                const NgramMemoryOptions& options, Random& random,
                                TableFile* file) {
  const EmbeddingOptions placed{.tables = options.tables};
  if (file == nullptr)
    return Submodule<Embedding>(owner, "table", hash.table_rows(), options.head_width, random,
                                placed);
  const Shape expected{hash.table_rows(), options.head_width};
  check_argument(file->shape() == expected, "NgramMemory: ", file->path().string(), " has shape ",
                 bracketed(file->shape()), ", expected ", bracketed(expected));
  return Submodule<Embedding>(owner, "table", *file, placed);
}

Tensor start_of_taps(std::size_t width, std::size_t kernel, Random& random) {
  check_argument(kernel > 0, "NgramMemory: kernel is 0, expected at least 1");
  const double bound = 1 / std::sqrt(static_cast<double>(kernel));
  return random.uniform({width, kernel}, -bound, bound);
}

// Returns sign(s) √max(|s|, 1e-6), whose gradient is 0 where |s| < 1e-6.
Variable signed_root(const Variable& s) {
  constexpr double kMin = 1e-6;
  return pointwise(
      "signed_root", s,
      [](Simd v) {
        const Simd root = sqrt(max(abs(v), kMin));
        return select(v > 0, root, select(v < 0, -root, v));
      },
      [](Simd g, Simd v, Simd y) { return select(abs(v) < kMin, 0, g / (2 * abs(y))); });
}

}  // namespace

Variable memory_gate(const Variable& key, const Variable& x) {
  const Shape& shape = x.shape();
  check_argument(!shape.empty() && shape.back() > 0 && key.shape() == shape,
                 "memory_gate: key and x have shapes ", bracketed(key.shape()), " and ",
                 bracketed(shape), ", expected equal shapes [..., width] with a width above 0");
  const auto width = static_cast<double>(shape.back());
  const Variable s = sum(key * x, {-1}, KeepAxes::kYes) / static_cast<real>(std::sqrt(width));
  return sigmoid(signed_root(s));
}

NgramMemory::NgramMemory(NgramHash hash, std::size_t width, Random& random,
                         const NgramMemoryOptions& options, TableFile* file)
    : hash_(std::move(hash)),
      table(make_table(*this, hash_, options, random, file)),
      key(*this, "key", hash_.lookups() * options.head_width, width, random),
      value(*this, "value", hash_.lookups() * options.head_width, width, random),
      key_norm(*this, "key_norm", width, options.norm_epsilon),
      query_norm(*this, "query_norm", width, options.norm_epsilon),
      conv_norm(*this, "conv_norm", width, options.norm_epsilon),
      conv(*this, "conv", start_of_taps(width, options.kernel, random)) {
  if (!options.zero_init) return;
  value.weight.assign(zeros(value.weight.shape()));
  value.bias->assign(zeros(value.bias->shape()));
}

// Returns the concatenated rows of each position.
Variable NgramMemory::look_up(const Variable& x, const DecodeContext& context) {
  const Shape& shape = x.shape();
  check_argument(shape.size() == 3 && shape[0] == context.ids.shape(0), "NgramMemory: x has shape ",
                 bracketed(shape), " and context.ids ", bracketed(context.ids.shape()),
                 ", expected [batch, length, width] and [batch, positions]");
  EmbeddingLookup lookup = table.lookup();
  lookup.kind = RowKind::kNgram;
  if (context.ids.shape(1) == shape[1]) lookup.tokens = context.ids;  // x has all positions
  const Variable rows =
      embedding(x.tape().parameter(table.table()), hash_.rows(context.ids, shape[1]), lookup);
  return reshape(rows, {shape[0], shape[1], hash_.lookups() * table.weight.shape()[1]});
}

std::optional<RowNames> NgramMemory::row_names(const Parameter& of_table) const {
  if (&of_table != &table.table()) return {};
  return RowNames{.kind = RowKind::kNgram, .ngrams = &hash_};
}

// Returns silu(conv(rms_norm(u))). Unless `kept` is null, replaces *kept with the positions that
// the next chunk needs.
Variable NgramMemory::convolved(const Variable& u, Tensor* kept) {
  const Variable taps = u.tape().parameter(conv);
  const Variable x = conv_norm.forward(u);
  const std::size_t dilation = hash_.max_order();
  if (kept == nullptr) return silu(causal_conv(x, taps, dilation));
  const bool is_first = kept->size() == 0;
  const Variable all = is_first ? x : concatenate({u.tape().constant(*kept), x}, 1);
  const auto length = static_cast<std::ptrdiff_t>(all.shape()[1]);
  const auto seen = static_cast<std::ptrdiff_t>((conv.shape()[1] - 1) * dilation);
  const auto first = length - static_cast<std::ptrdiff_t>(x.shape()[1]);
  *kept = slice(all, 1, std::max<std::ptrdiff_t>(length - seen, 0), length).value();
  return silu(slice(causal_conv(all, taps, dilation), 1, first, length));
}

Variable NgramMemory::forward(const Variable& x, const DecodeContext& context) {
  const Variable rows = look_up(x, context);
  const Variable g = memory_gate(key_norm.forward(key.forward(rows)), query_norm.forward(x));
  if (context.gates != nullptr)
    context.gates->push_back(reshape(g, {x.shape()[0], x.shape()[1]}).value());
  const Variable u = g * value.forward(rows);
  return x + u + convolved(u, context.kept);
}

}  // namespace rowgrad
