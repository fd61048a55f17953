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

/// Freezes the whole model except adapters, and adds an adapter to each linear layer whose name
/// matches `names` ("blocks.*.query,head", see NamePatterns). Returns the number of added adapters.
/// Throws std::invalid_argument for a pattern that matches no linear layer and for invalid options,
/// and std::logic_error for a layer that has an adapter or borrows its weight. On error, nothing
/// changes.
std::size_t add_lora(Layer& model, std::string_view names, const LoraOptions& options,
                     Random& random);

/// Returns only the adapters and their scales. Save other parameters, such as a classifier's head,
/// with state_dict("head.weight,head.bias").
StateDict lora_state(const Layer& model);

/// Adds the trained adapters of a state dict to a model that has none, and freezes everything else.
/// Throws std::invalid_argument if `state` does not fit the model, and std::logic_error if the
/// model has adapters.
void load_lora(Layer& model, const StateDict& state);

/// Adds all adapters to the weights and removes the adapters. Results change only by rounding.
/// The weights stay frozen: call unfreeze() to train them.
void merge_lora(Layer& model);

}  // namespace rowgrad
