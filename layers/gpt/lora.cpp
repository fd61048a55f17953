#include <rowgrad/core/base/name_patterns.hpp>
#include <rowgrad/layers/gpt/lora.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kAdapters = "*lora_a,*lora_b,*lora_scale";

}  // namespace

std::size_t add_lora(Layer& model, std::string_view names, const LoraOptions& options,
                     Random& random) {
  NamePatterns patterns(names);
  std::vector<Linear*> chosen;
  for (const auto& [name, layer] : model.named_layers<Linear>())
    if (patterns.match(name)) chosen.push_back(layer);
  patterns.check_all_matched("add_lora", "linear layer");
  for (const Linear* layer : chosen) layer->check_lora(options);
  model.freeze();
  for (Linear* layer : chosen) layer->add_lora(random, options);
  model.unfreeze("*lora_a,*lora_b");  // also in earlier adapters
  return chosen.size();
}

StateDict lora_state(const Layer& model) { return model.state_dict(kAdapters); }

void load_lora(Layer& model, const StateDict& state) {
  NamePatterns patterns(kAdapters);
  std::size_t unmatched = 0;  // adapter tensors that belong to no layer
  for (const std::string& name : state.names()) unmatched += patterns.match(name) ? 1U : 0U;
  std::vector<std::pair<Linear*, LoraOptions>> chosen;
  for (const auto& [name, layer] : model.named_layers<Linear>()) {
    const std::string prefix = name.empty() ? "" : name + ".";
    check_state(!layer->has_lora(), "load_lora: ", layer->weight.name(), " already has an adapter");
    if (!state.contains(prefix + "lora_a")) continue;
    const Shape shape = state.shape(prefix + "lora_a");
    const LoraOptions options{.rank = shape.empty() ? 0 : shape[0]};
    layer->check_lora(options);
    state.check_shape(prefix + "lora_a", {options.rank, layer->weight.shape()[1]});
    state.check_shape(prefix + "lora_b", {layer->weight.shape()[0], options.rank});
    state.check_shape(prefix + "lora_scale", {1});
    chosen.emplace_back(layer, options);
    unmatched -= std::min<std::size_t>(unmatched, 3);
  }
  check_argument(
      !chosen.empty() && unmatched == 0, "load_lora: got adapters for ", chosen.size(),
      " linear layers of the model and ", unmatched,
      " adapter tensors for other layers, expected adapters for layers of the model only");
  model.freeze();
  Random random(0);  // drawn values are overwritten
  for (const auto& [layer, options] : chosen) layer->add_lora(random, options);
  model.load_state_dict(state, {.names = std::string(kAdapters)});
}

void merge_lora(Layer& model) {
  for (const auto& [name, layer] : model.named_layers<Linear>()) layer->merge_lora();
}

}  // namespace rowgrad
