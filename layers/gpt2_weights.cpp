#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <vector>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/layers/gpt2_weights.hpp>

namespace rowgrad {
namespace {

constexpr const char* kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kHeads = "n_head";  // a text: how many there are

// A tensor of the layout with the values of a parameter, or of several side by side.
struct Gpt2Tensor {
  std::string name;
  std::vector<Parameter*> parameters;  // all of one shape
  bool transposed = false;             // [inputs, outputs], while a parameter is [outputs, inputs]

  bool as_it_is() const { return parameters.size() == 1 && !transposed; }
  // The tensor as a matrix: its rows, and its columns of each parameter.
  std::size_t rows() const { return transposed ? parameters[0]->shape()[1] : 1; }
  std::size_t columns_of_each() const { return parameters[0]->size() / rows(); }
  Shape shape() const {
    Shape shape = parameters[0]->shape();
    if (transposed) std::swap(shape[0], shape[1]);
    shape.back() *= parameters.size();
    return shape;
  }
};

std::vector<Gpt2Tensor> layout_of(GptModel& model, const std::string& prefix) {
  std::vector<Gpt2Tensor> all;
  const auto add_norm = [&](const std::string& name, LayerNorm& norm) {
    all.push_back({name + ".weight", {&norm.weight}});
    all.push_back({name + ".bias", {&*norm.bias}});
  };
  const auto add_linear = [&](const std::string& name, const std::vector<Linear*>& layers) {
    Gpt2Tensor weight{name + ".weight", {}, true};
    Gpt2Tensor bias{name + ".bias", {}};
    for (Linear* layer : layers) {
      weight.parameters.push_back(&layer->weight);
      bias.parameters.push_back(&*layer->bias);
    }
    all.push_back(std::move(weight));
    all.push_back(std::move(bias));
  };
  all.push_back({prefix + "wte.weight", {&model.token.weight}});
  all.push_back({prefix + "wpe.weight", {&model.position->weight}});
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const std::string name = concat(prefix, "h.", i);
    TransformerBlock& block = model.blocks[i];
    CausalSelfAttention& attention = block.attention;
    add_norm(name + ".ln_1", block.norm1);
    add_linear(name + ".attn.c_attn", {&attention.query, &attention.key, &attention.value});
    add_linear(name + ".attn.c_proj", {&attention.out});
    add_norm(name + ".ln_2", block.norm2);
    add_linear(name + ".mlp.c_fc", {&block.feed_forward.up});
    add_linear(name + ".mlp.c_proj", {&block.feed_forward.down});
  }
  add_norm(prefix + "ln_f", model.norm);
  return all;
}

// to [columns, rows] = the transpose of from [rows, columns]; the steps are from row to row.
void transpose(const real* from, std::size_t from_step, std::size_t rows, std::size_t columns,
               real* to, std::size_t to_step) {
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < rows; ++i) to[j * to_step + i] = from[i * from_step + j];
}

std::string prefix_of(const Checkpoint& file) {
  return file.contains(concat(kPrefix, "wte.weight")) ? kPrefix : "";
}

bool same_values(const Checkpoint& file, const std::string& one, const std::string& other) {
  const auto* a = std::get_if<Tensor>(&file.at(one));
  const auto* b = std::get_if<Tensor>(&file.at(other));
  if (file.shape(one) != file.shape(other)) return false;
  if (a != nullptr && b != nullptr) return std::equal(a->begin(), a->end(), b->begin());
  return file.doubles(one) == file.doubles(other);
}

std::size_t heads_in(const Checkpoint& file) {
  const std::string& text = file.text(kHeads);
  std::size_t heads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), heads);
  check_argument(error == std::errc() && end == text.data() + text.size() && heads > 0,
                 "gpt2_weights: the text ", in_quotes(kHeads), " is ", in_quotes(text),
                 ", expected a whole number above 0");
  return heads;
}

void check_no_others(const Checkpoint& file, const std::vector<Gpt2Tensor>& layout,
                     const std::string& prefix, std::size_t layers) {
  std::set<std::string> known{kHead};
  for (const Gpt2Tensor& stored : layout) known.insert(stored.name);
  for (std::size_t i = 0; i < layers; ++i)
    for (const char* mask : {".attn.bias", ".attn.masked_bias"})
      known.insert(concat(prefix, "h.", i, mask));
  for (const std::string& name : file.names())
    check_argument(known.contains(name) || std::holds_alternative<std::string>(file.at(name)),
                   "load_gpt2_weights: unexpected ", in_quotes(name), ", the model has ", layers,
                   " layers");
}

}  // namespace

void check_gpt2_layout(std::string_view caller, const GptOptions& options) {
  const auto check = [&](bool fits, const auto&... got) {
    check_argument(fits, caller, ": the model has ", got...);
  };
  check(options.positions == Positions::kLearned, "other positions, expected learned ones");
  check(options.qkv_bias, "query, key and value without bias, expected qkv_bias");
  check(options.bias, "linear layers and norms without bias, expected one in each");
}

GptOptions gpt2_options(const Checkpoint& file, std::size_t heads) {
  const std::string prefix = prefix_of(file);
  const auto table = [&](const char* name) {
    const Shape& shape = file.shape(prefix + name);
    check_argument(shape.size() == 2, "gpt2_options: ", in_quotes(prefix + name), " has shape ",
                   bracketed(shape), ", expected [rows, width]");
    return shape;
  };
  const Shape tokens = table("wte.weight");
  const Shape positions = table("wpe.weight");
  const std::size_t width = tokens[1];
  std::size_t layers = 0;
  const auto norm = [&] { return concat(prefix, "h.", layers, ".ln_1.weight"); };
  file.check_shape(norm(), {width});
  while (file.contains(norm())) ++layers;

  if (heads == 0 && file.contains(kHeads)) heads = heads_in(file);
  check_argument(heads > 0 || (width > 0 && width % 64 == 0), "gpt2_options: the width is ", width,
                 ", which is no multiple of 64: expected the number of heads");
  return {.vocabulary = tokens[0],
          .context = positions[0],
          .width = width,
          .heads = heads > 0 ? heads : width / 64,
          .layers = layers,
          .qkv_bias = true,
          .tie_weights = !file.contains(kHead) || same_values(file, kHead, prefix + "wte.weight")};
}

void load_gpt2_weights(GptModel& model, const Checkpoint& file) {
  const GptOptions& options = model.options();
  check_gpt2_layout("load_gpt2_weights", options);
  const std::string prefix = prefix_of(file);
  const std::string table = prefix + "wte.weight";
  std::vector<Gpt2Tensor> layout = layout_of(model, prefix);
  if (!options.tie_weights)
    layout.push_back({file.contains(kHead) ? kHead : table, {&model.head.weight}});
  std::size_t largest = 0;
  for (const Gpt2Tensor& stored : layout) {
    const Shape shape = stored.shape();
    file.check_shape(stored.name, shape);
    if (!stored.as_it_is()) largest = std::max(largest, element_count(shape));
  }
  check_no_others(file, layout, prefix, options.layers);
  check_argument(!options.tie_weights || !file.contains(kHead) || same_values(file, kHead, table),
                 "load_gpt2_weights: ", in_quotes(kHead), " differs from ", in_quotes(table),
                 ", expected the same numbers, as the model's head is tied");
  if (file.contains(kHeads)) {
    const std::size_t heads = heads_in(file);
    check_argument(heads == options.heads, "load_gpt2_weights: the model has ", options.heads,
                   " heads, expected ", heads, ", as the file says");
  }

  Tensor whole = empty({largest});
  // From here on nothing can fail.
  for (const Gpt2Tensor& stored : layout) {
    if (stored.as_it_is()) {
      file.copy_to(stored.name, stored.parameters[0]->mutable_values());
      continue;
    }
    const std::size_t rows = stored.rows();
    const std::size_t each = stored.columns_of_each();
    const std::size_t columns = each * stored.parameters.size();
    file.copy_to(stored.name, std::span(whole.data(), rows * columns));
    const real* from = whole.data();
    for (Parameter* parameter : stored.parameters) {
      transpose(from, columns, rows, each, parameter->mutable_values().data(), rows);
      from += each;
    }
  }
}

Checkpoint gpt2_weights(GptModel& model) {
  const GptOptions& options = model.options();
  check_gpt2_layout("gpt2_weights", options);
  std::vector<Gpt2Tensor> layout = layout_of(model, options.tie_weights ? "" : kPrefix);
  if (!options.tie_weights) layout.push_back({kHead, {&model.head.weight}});
  std::set<const Parameter*> known;
  for (const Gpt2Tensor& stored : layout)
    known.insert(stored.parameters.begin(), stored.parameters.end());
  for (const Parameter* parameter : model.parameters())
    check_argument(known.contains(parameter), "gpt2_weights: GPT-2 has no ",
                   in_quotes(parameter->name()), ' ', bracketed(parameter->shape()));

  Checkpoint file;
  file.put("format", "pt");  // without it, Hugging Face's reader refuses a file
  file.put(kHeads, std::to_string(options.heads));
  for (const Gpt2Tensor& stored : layout) {
    if (stored.as_it_is()) {
      file.put(stored.name, stored.parameters[0]->copy());
      continue;
    }
    Tensor whole = empty(stored.shape());
    const std::size_t rows = stored.rows();
    const std::size_t each = stored.columns_of_each();
    const std::size_t columns = each * stored.parameters.size();
    real* to = whole.data();
    for (const Parameter* parameter : stored.parameters) {
      transpose(parameter->copy().data(), rows, each, rows, to, columns);
      to += each;
    }
    file.put(stored.name, std::move(whole));
  }
  return file;
}

}  // namespace rowgrad
