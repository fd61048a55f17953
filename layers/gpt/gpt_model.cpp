#include <algorithm>
#include <cmath>
#include <set>

#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>

namespace rowgrad {
namespace {

const GptOptions& checked(const GptOptions& options) {
  check_argument(options.vocabulary > 0 && options.context > 0 && options.layers > 0,
                 "GptModel: vocabulary is ", options.vocabulary, ", context is ", options.context,
                 " and layers is ", options.layers, ", expected all above 0");
  const GptMemories& memories = options.memories;
  std::set<std::size_t> blocks;
  for (const std::size_t block : memories.blocks)
    check_argument(block < options.layers && blocks.insert(block).second,
                   "GptModel: memories.blocks is ", bracketed(memories.blocks),
                   ", expected distinct numbers below ", options.layers, ", the number of blocks");
  check_argument(memories.files.empty() || memories.files.size() == memories.blocks.size(),
                 "GptModel: memories.files has size ", memories.files.size(), ", expected 0 or ",
                 memories.blocks.size(), ", the size of memories.blocks");
  const auto null = std::find(memories.files.begin(), memories.files.end(), nullptr);
  check_argument(null == memories.files.end(), "GptModel: memories.files[",
                 null - memories.files.begin(), "] is null, expected a table file");
  return options;
}

TransformerBlockOptions block_options(const GptOptions& options) {
  return {.attention = {.heads = options.heads,
                        .qkv_bias = options.qkv_bias,
                        .out_bias = options.bias,
                        .dropout = options.dropout},
          .feed_forward = {.gelu = options.gelu, .bias = options.bias, .dropout = options.dropout},
          .norm = {.epsilon = options.norm_epsilon, .bias = options.bias}};
}

Submodule<Linear> make_head(Layer& owner, const GptOptions& options, Parameter& table,
                            Random& random) {
  const LinearOptions no_bias{.bias = false};
  if (options.tie_weights) return Submodule<Linear>(owner, "head", table, random, no_bias);
  return Submodule<Linear>(owner, "head", options.width, options.vocabulary, random, no_bias);
}

// Returns the distances in each of T5's buckets: "5", "16 to 18", "113 and more".
std::vector<std::string> t5_names(std::size_t buckets, std::size_t max_distance) {
  const auto first_of = [&](std::size_t bucket) {  // binary search: buckets rise with distances
    std::size_t first = 0, end = max_distance;
    while (first < end) {
      const std::size_t middle = first + (end - first) / 2;
      if (t5_bucket(middle, buckets, max_distance) < bucket)
        first = middle + 1;
      else
        end = middle;
    }
    return first;
  };
  std::vector<std::string> names;
  for (std::size_t bucket = 0; bucket + 1 < buckets; ++bucket) {
    const std::size_t first = first_of(bucket), next = first_of(bucket + 1);
    names.push_back(next == first       ? std::string("no distance")
                    : next == first + 1 ? concat(first)
                                        : concat(first, " to ", next - 1));
  }
  names.push_back(concat(first_of(buckets - 1), " and more"));
  return names;
}

// Returns the distance of each of Shaw's rows. The second half of the rows is for keys after their
// query, which have negative distances.
std::vector<std::string> shaw_names(std::size_t farthest) {
  std::vector<std::string> names{concat(farthest, " and more")};
  for (std::size_t row = 1; row <= farthest; ++row) names.push_back(concat(farthest - row));
  for (std::size_t ahead = 1; ahead <= farthest; ++ahead) names.push_back(concat("−", ahead));
  return names;
}

}  // namespace

void initialize_as_gpt2(Layer& layer, std::size_t layers, Random& random) {
  check_argument(layers > 0, "initialize_as_gpt2: layers is 0, expected at least 1");
  for (Parameter* parameter : layer.parameters_on_tape())
    parameter->check_in_memory("initialize_as_gpt2 draws all values");
  const double output_std = 0.02 / std::sqrt(2.0 * static_cast<double>(layers));
  for (Parameter* parameter : layer.parameters()) {
    const std::string& name = parameter->name();
    const bool is_output = name.ends_with(".out.weight") || name.ends_with(".down.weight");
    if (parameter->shape().size() == 2) {
      parameter->assign(random.normal(parameter->shape(), 0, is_output ? output_std : 0.02));
    } else if (name.ends_with(".bias")) {
      parameter->assign(zeros(parameter->shape()));
    }
  }
}

GptModel::GptModel(const GptOptions& options, Random& random)
    : options_(checked(options)),
      token(*this, "token", options.vocabulary, options.width, random,
            EmbeddingOptions{.kind = RowKind::kToken}),
      position(optional_submodule<PositionalEmbedding>(options.positions == Positions::kLearned,
                                                       *this, "position", options.context,
                                                       options.width, random)),
      sinusoidal(optional_submodule<Sinusoidal>(options.positions == Positions::kSinusoidal, *this,
                                                "sinusoidal", options.context, options.width)),
      dropout(*this, "dropout", options.dropout),
      blocks(*this, "blocks", options.layers, options.width, random, block_options(options)),
      norm(*this, "norm", options.width, block_options(options).norm),
      head(make_head(*this, options, token.weight, random)),
      memories(*this, "memories") {
  if (options.positions == Positions::kT5) {
    t5_bucket(0, options.t5_buckets, options.t5_max_distance);  // throws if the options are invalid
    t5_table.emplace(*this, "t5_table", random.normal({options.t5_buckets, options.heads}));
  }
  if (options.positions == Positions::kShaw) {
    check_argument(options.shaw_max_distance < (std::size_t{1} << 30),
                   "GptModel: shaw_max_distance is ", options.shaw_max_distance,
                   ", expected less than 2^30");
    const Shape table{2 * options.shaw_max_distance + 1, options.width / options.heads};
    shaw_keys.emplace(*this, "shaw_keys", random.normal(table));
    shaw_values.emplace(*this, "shaw_values", random.normal(table));
  }
  if (options.positions == Positions::kRotary) rotary.emplace(rotary_table(0, options.context));
  if (options.initialization == Initialization::kGpt2)
    initialize_as_gpt2(*this, options.layers, random);
  for (std::size_t i = 0; i < options.memories.blocks.size(); ++i) add_memory(i, random);
}

void GptModel::add_memory(std::size_t i, Random& random) {
  const GptMemories& options = options_.memories;
  NgramHash hash(options_.vocabulary, options.ngrams, options.blocks, options.blocks[i]);
  check_argument(hash.max_order() <= options_.context, "GptModel: n-grams have up to ",
                 hash.max_order(), " tokens, expected at most the context, ", options_.context);
  TableFile* const file = options.files.empty() ? nullptr : options.files[i];
  memories.add(std::move(hash), options_.width, random, options.memory, file);
}

std::optional<RowNames> GptModel::row_names(const Parameter& table) const {
  if (t5_table && &table == &*t5_table)
    return RowNames{.kind = RowKind::kDistance,
                    .names = t5_names(options_.t5_buckets, options_.t5_max_distance)};
  if (shaw_keys && (&table == &*shaw_keys || &table == &*shaw_values))
    return RowNames{.kind = RowKind::kDistance, .names = shaw_names(options_.shaw_max_distance)};
  return {};
}

Variable GptModel::embed(Tape& tape, const Ids& ids, std::size_t first_position) {
  const std::size_t length = ids.shape().back();
  const Variable x =
      position     ? token.forward(tape, ids, position->rows(tape, length, first_position))
      : sinusoidal ? token.forward(tape, ids, sinusoidal->rows(tape, length, first_position))
                   : token.forward(tape, ids);
  return dropout.forward(x);
}

RotaryTable GptModel::rotary_table(std::size_t first_position, std::size_t positions) const {
  return RotaryTable(positions, options_.width / options_.heads,
                     {.layout = options_.rotary_layout,
                      .base = options_.rotary_base,
                      .first_position = first_position});
}

AttentionPositions GptModel::attention_positions(Tape& tape, std::size_t length) {
  AttentionPositions result;
  if (rotary) result.rotary = &*rotary;
  if (options_.positions == Positions::kAlibi)
    result.distance_bias = tape.constant(alibi_bias(options_.heads, length));
  if (t5_table)
    result.distance_bias = t5_bias(tape.parameter(*t5_table), length, options_.t5_max_distance);
  if (shaw_keys)
    result.relative = {relative_rows(tape.parameter(*shaw_keys), length),
                       relative_rows(tape.parameter(*shaw_values), length)};
  return result;
}

Variable GptModel::before_block(std::size_t block, const Variable& x,
                                const DecodeContext& context) {
  const std::vector<std::size_t>& blocks_with = options_.memories.blocks;
  const auto found = std::ranges::find(blocks_with, block);
  if (found == blocks_with.end()) return x;
  return memories[static_cast<std::size_t>(found - blocks_with.begin())].forward(x, context);
}

Variable GptModel::input_of(std::size_t block, const Variable& x, const DecodeContext& context) {
  const Variable input = before_block(block, x, context);
  check_state(input.shape() == x.shape(), "GptModel: before_block(", block, ", …) returned shape ",
              bracketed(input.shape()), ", expected ", bracketed(x.shape()));
  return input;
}

Variable GptModel::through_blocks(Tape& tape, const Ids& ids, std::vector<Tensor>* weights,
                                  std::vector<Tensor>* gates) {
  check_argument(ids.dimension() >= 1 && ids.shape().back() <= options_.context,
                 "GptModel: ids have shape ", bracketed(ids.shape()),
                 ", expected [..., length] with a length of at most the context, ",
                 options_.context);
  Variable x = embed(tape, ids, 0);
  const Shape shape = x.shape();
  const std::size_t length = ids.shape().back();
  const std::size_t batch = length == 0 ? 0 : ids.size() / length;
  if (shape.size() != 3) x = reshape(x, {batch, length, options_.width});
  const AttentionPositions positions = attention_positions(tape, length);
  Ids text = ids;
  text.reshape(Ids::shape_type{batch, length});
  for (std::size_t i = 0; i < options_.layers; ++i) {
    TransformerBlock& block = blocks[i];
    x = input_of(i, x, {.ids = text, .kept = nullptr, .gates = gates});
    if (weights != nullptr)
      weights->push_back(block.attention.weights(block.norm1.forward(x), positions));
    x = block.forward(x, positions);
  }
  x = norm.forward(x);
  return shape.size() != 3 ? reshape(x, shape) : x;
}

Variable GptModel::hidden_states(Tape& tape, const Ids& ids) {
  return through_blocks(tape, ids, nullptr, nullptr);
}

std::vector<Tensor> GptModel::attention_weights(const Ids& ids) {
  const EvaluationMode mode(*this);
  Tape tape(Tape::kInference);
  std::vector<Tensor> weights;
  through_blocks(tape, ids, &weights, nullptr);
  return weights;
}

std::vector<Tensor> GptModel::memory_gates(const Ids& ids) {
  const EvaluationMode mode(*this);
  Tape tape(Tape::kInference);
  std::vector<Tensor> gates;
  through_blocks(tape, ids, nullptr, &gates);
  return gates;
}

class GptModel::Decoder : public IncrementalDecoder {
 public:
  Decoder(GptModel& model, bool slides)
      : model_(model), slides_(slides), kept_(model.options().layers, empty({0})) {
    const GptOptions& options = model.options();
    for (std::size_t i = 0; i < options.layers; ++i)
      caches_.emplace_back(options.context, options.width);
  }

  // If this function throws, the decoder has read none of the ids.
  Tensor next_logits(std::span<const std::int32_t> ids) override {
    const std::size_t before = caches_.front().length();
    const std::size_t free = model_.context() - text_.size();
    check_argument(!ids.empty() && (slides_ || ids.size() <= free), "GptModel: ids has size ",
                   ids.size(), " after ", before,
                   " earlier ids, expected at least 1, and in total at most the context, ",
                   model_.context());
    std::vector<std::int32_t> text = text_;
    std::vector<Tensor> kept = kept_;
    try {
      for (KeyValueCache& cache : caches_) cache.make_room(ids.size());
      // Past the context, ids are read one at a time, because each id has its own window.
      for (std::size_t count = std::clamp<std::size_t>(free, 1, ids.size());; count = 1) {
        Tensor logits = read_next(ids.first(count));
        ids = ids.subspan(count);
        if (ids.empty()) return logits;
      }
    } catch (...) {
      for (KeyValueCache& cache : caches_) cache.truncate(std::min(before, cache.length()));
      text_.swap(text);
      kept_.swap(kept);
      throw;
    }
  }

 private:
  // Reads several ids that fit into the context, or a single id.
  Tensor read_next(std::span<const std::int32_t> ids) {
    const std::size_t first = caches_.front().length();
    const std::size_t window = std::min(text_.size() + ids.size(), model_.context());
    text_.insert(text_.end(), ids.begin(), ids.end());
    text_.erase(text_.begin(), text_.end() - static_cast<std::ptrdiff_t>(window));
    const EvaluationMode mode(model_);
    std::optional<RotaryTable> past_context;
    Tape tape(Tape::kInference);
    const auto rows = [&](std::size_t count) {
      Ids row = to_ids(std::span(text_).last(count));
      row.reshape(Ids::shape_type{1, count});
      return row;
    };
    const Ids text = rows(window);
    Variable x = model_.embed(tape, rows(ids.size()), first);
    AttentionPositions positions = model_.attention_positions(tape, window);
    if (model_.rotary && first + ids.size() > model_.context())
      positions.rotary = &past_context.emplace(model_.rotary_table(first, ids.size()));
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      x = model_.input_of(i, x, {.ids = text, .kept = &kept_[i]});
      x = model_.blocks[i].forward(x, positions, &caches_[i]);
    }
    const auto last = static_cast<std::ptrdiff_t>(ids.size());
    x = slice(x, 1, last - 1, last);
    Tensor logits = model_.head.forward(model_.norm.forward(x)).value();
    logits.reshape(Shape{model_.vocabulary()});
    return logits;
  }

  GptModel& model_;
  bool slides_;                     // can read past the context
  std::vector<std::int32_t> text_;  // at most the last `context` ids that were read
  std::vector<Tensor> kept_;        // DecodeContext::kept of each block
  std::vector<KeyValueCache> caches_;
};

std::vector<TableLookup> GptModel::lookups(const Batch& batch) const {
  std::vector<TableLookup> all;
  for (std::size_t i = 0; i < memories.size(); ++i)
    all.push_back(memories[i].lookup_of(batch.inputs()));
  return all;
}

std::unique_ptr<IncrementalDecoder> GptModel::decoder() {
  return std::make_unique<Decoder>(*this, false);
}

std::unique_ptr<IncrementalDecoder> GptModel::sliding_decoder() {
  check_argument(!position && !sinusoidal, "GptModel: cannot slide past the context of ",
                 options_.context, " with ", position ? "learned" : "sinusoidal",
                 " positions, expected rotary, alibi, t5, shaw or none");
  return std::make_unique<Decoder>(*this, true);
}

}  // namespace rowgrad
