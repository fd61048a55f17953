#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <vector>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/layers/gpt/gpt2_weights.hpp>

namespace rowgrad {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kHeads = "n_head";  // a string: the number of attention heads

// Names of a block's layers in the file and in GptModel. c_attn contains query, key and value.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"ln_1", "norm1"}, {"attn.c_attn", "attention.[qkv]*"}, {"attn.c_proj", "attention.out"},
    {"ln_2", "norm2"}, {"mlp.c_fc", "feed_forward.up"},     {"mlp.c_proj", "feed_forward.down"}};

// A tensor of the file: the concatenation of parameters of equal shape.
struct Gpt2Tensor {
  std::string name;
  std::vector<Parameter*> parameters;
  bool transposed = false;  // [inputs, outputs] in the file, [outputs, inputs] in parameters

  // Returns the shape of the parameters, concatenated along axis 0.
  Shape joined_shape() const {
    Shape shape = parameters[0]->shape();
    shape[0] *= parameters.size();
    return shape;
  }
  // Returns the shape of the tensor in the file.
  Shape shape() const {
    Shape shape = joined_shape();
    if (transposed) std::swap(shape[0], shape[1]);
    return shape;
  }
};

std::vector<Gpt2Tensor> layout_of(GptModel& model, const std::string& prefix) {
  std::vector<Gpt2Tensor> all{{prefix + "wte.weight", {&model.token.weight}},
                              {prefix + "wpe.weight", {&model.position->weight}}};
  for (std::size_t i = 0; i < model.blocks.size(); ++i)
    for (const auto& [theirs, ours] : kNames)
      for (const char* kind : {".weight", ".bias"}) {
        std::vector<Parameter*> found = model.blocks[i].parameters(concat(ours, kind));
        const bool is_matrix = found[0]->shape().size() == 2;
        all.push_back({concat(prefix, "h.", i, '.', theirs, kind), std::move(found), is_matrix});
      }
  all.push_back({prefix + "ln_f.weight", {&model.norm.weight}});
  all.push_back({prefix + "ln_f.bias", {&*model.norm.bias}});
  return all;
}

std::string prefix_of(const StateDict& file) {
  return file.contains("transformer.wte.weight") ? "transformer." : "";
}

bool same_values(const StateDict& file, const std::string& one, const std::string& other) {
  const Shape& shape = file.shape(one);
  return shape == file.shape(other) && file.tensor(one, shape) == file.tensor(other, shape);
}

std::size_t heads_in(const char* caller, const StateDict& file) {
  const std::string& text = file.string(kHeads);
  std::size_t heads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), heads);
  check_argument(error == std::errc() && end == text.data() + text.size() && heads > 0, caller,
                 ": the string ", in_quotes(kHeads), " is ", in_quotes(text),
                 ", expected a whole number above 0");
  return heads;
}

}  // namespace

void check_gpt2_layout(std::string_view caller, const GptOptions& options) {
  const auto check = [&](bool fits, const auto&... got) {
    check_argument(fits, caller, ": the model has ", got...);
  };
  check(options.positions == Positions::kLearned,
        "positions that are not learned, expected learned positions");
  check(options.qkv_bias, "no bias in query, key and value, expected qkv_bias");
  check(options.bias, "no bias in linear layers and norms, expected bias");
}

GptOptions gpt2_options(const StateDict& file, std::size_t heads) {
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

  if (heads == 0 && file.contains(kHeads)) heads = heads_in("gpt2_options", file);
  check_argument(heads > 0 || (width > 0 && width % 64 == 0),
                 "gpt2_options: the number of heads is unknown, and width ", width,
                 " is not a multiple of 64: expected `heads` above 0");
  return {.vocabulary = tokens[0],
          .context = positions[0],
          .width = width,
          .heads = heads > 0 ? heads : width / 64,
          .layers = layers,
          .qkv_bias = true,
          .tie_weights = !file.contains(kHead) || same_values(file, kHead, prefix + "wte.weight")};
}

void load_gpt2_weights(GptModel& model, const StateDict& file) {
  const GptOptions& options = model.options();
  check_gpt2_layout("load_gpt2_weights", options);
  const std::string prefix = prefix_of(file);
  const std::string table = prefix + "wte.weight";
  std::vector<Gpt2Tensor> layout = layout_of(model, prefix);
  if (!options.tie_weights)
    layout.push_back({file.contains(kHead) ? kHead : table, {&model.head.weight}});
  std::set<std::string> known{kHead};
  for (const Gpt2Tensor& stored : layout) {
    file.check_shape(stored.name, stored.shape());
    known.insert(stored.name);
  }
  for (std::size_t i = 0; i < options.layers; ++i)
    for (const char* mask : {".attn.bias", ".attn.masked_bias"})
      known.insert(concat(prefix, "h.", i, mask));
  for (const std::string& name : file.names())
    check_argument(known.contains(name) || std::holds_alternative<std::string>(file.at(name)),
                   "load_gpt2_weights: unexpected name ", in_quotes(name), ", expected names of ",
                   options.layers, " layers as in the model");
  check_argument(!options.tie_weights || !file.contains(kHead) || same_values(file, kHead, table),
                 "load_gpt2_weights: ", in_quotes(kHead), " differs from ", in_quotes(table),
                 ", expected equal values, as the model's head is tied");
  if (file.contains(kHeads)) {
    const std::size_t heads = heads_in("load_gpt2_weights", file);
    check_argument(heads == options.heads, "load_gpt2_weights: the file has ", heads,
                   " heads, expected ", options.heads, " as in the model");
  }

  for (const auto& stored : layout) {
    if (stored.parameters.size() == 1 && !stored.transposed) {
      file.copy_to(stored.name, stored.parameters[0]->mutable_values());
      continue;
    }
    const Tensor whole = file.tensor(stored.name, stored.shape());
    const Tensor joined = stored.transposed ? permuted(whole, {1, 0}) : whole;
    const real* from = joined.data();
    for (Parameter* parameter : stored.parameters) {
      std::copy_n(from, parameter->size(), parameter->mutable_values().data());
      from += parameter->size();
    }
  }
}

StateDict gpt2_weights(GptModel& model) {
  const GptOptions& options = model.options();
  check_gpt2_layout("gpt2_weights", options);
  std::vector<Gpt2Tensor> layout = layout_of(model, options.tie_weights ? "" : "transformer.");
  if (!options.tie_weights) layout.push_back({kHead, {&model.head.weight}});
  std::set<const Parameter*> known;
  for (const Gpt2Tensor& stored : layout)
    known.insert(stored.parameters.begin(), stored.parameters.end());
  for (const Parameter* parameter : model.parameters())
    check_argument(known.contains(parameter), "gpt2_weights: the layout has no place for ",
                   in_quotes(parameter->name()), ' ', bracketed(parameter->shape()));

  StateDict file;
  file.put("format", "pt");  // required by Hugging Face's reader
  file.put(kHeads, std::to_string(options.heads));
  for (const Gpt2Tensor& stored : layout) {
    Tensor joined = empty(stored.joined_shape());
    real* to = joined.data();
    for (const Parameter* parameter : stored.parameters)
      to = std::ranges::copy(parameter->value(), to).out;
    file.put(stored.name, stored.transposed ? permuted(joined, {1, 0}) : std::move(joined));
  }
  return file;
}

}  // namespace rowgrad
