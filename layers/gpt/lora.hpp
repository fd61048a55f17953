#pragma once

// Low-rank adapters in the linear layers of a model: see Linear.
//
//   add_lora(model, "blocks.*", {.rank = 16, .alpha = 16}, random);
//   AdamW optimizer(model.parameters(), {.learning_rate = 8e-4});
//   … train …
//   write_safetensors("adapter.safetensors", lora_state(model));

#include <cstddef>
#include <string_view>

#include <rowgrad/layers/layer.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {

/// Freezes the whole model but for adapters, and adds an adapter to each of its linear layers that
/// has such a name ("blocks.*.query,head", see NamePatterns). Returns how many there are. Throws
/// std::invalid_argument for a pattern that matches no linear layer and for options that do not
/// fit, and std::logic_error for a layer that has an adapter or borrows its weight; then nothing
/// changes.
std::size_t add_lora(Layer& model, std::string_view names, const LoraOptions& options,
                     Random& random);

/// The adapters alone, with their scales. What else a copy of the model needs is to be saved, too,
/// as the new head of a classifier: state_dict("head.weight,head.bias").
StateDict lora_state(const Layer& model);

/// Adds the adapters of a state to a model that has none, with what they have learned, and freezes
/// all else. Throws std::invalid_argument for a state that does not fit the model, and
/// std::logic_error for a model that has adapters.
void load_lora(Layer& model, const StateDict& state);

/// Adds all adapters to their weights: the model computes the same, and has the parameters of
/// before add_lora. They stay frozen: unfreeze() what is to be trained.
void merge_lora(Layer& model);

}  // namespace rowgrad
