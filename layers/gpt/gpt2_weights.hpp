#pragma once

// Reads and writes GPT-2's weights in the layout of Hugging Face's model.safetensors:
//
//   const StateDict file = read_safetensors("model.safetensors");
//   GptModel model(gpt2_options(file), random);
//   load_gpt2_weights(model, file);
//   write_safetensors("mine.safetensors", gpt2_weights(model));
//
// The names are "wte.weight" [vocabulary, width], "wpe.weight" [context, width], "ln_f" and, after
// "h.0." for layer 0, "ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc" and "mlp.c_proj".
// The weights of linear layers are [inputs, outputs]; the columns of c_attn are query, key and
// value. The head is "lm_head.weight" if present, otherwise wte.weight. All names except the head's
// may start with "transformer.". Masks ("attn.bias", "attn.masked_bias") are ignored.
//
// Models that the layout cannot describe (without learned positions, or without biases), and
// files with missing, unexpected or malformed tensors throw std::invalid_argument.

#include <cstddef>
#include <string_view>

#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>

namespace rowgrad {

/// Returns the options of the model in `file`. The head is tied unless lm_head.weight differs from
/// wte.weight. Dropout is 0; GELU and norm_epsilon are OpenAI's. The number of heads is `heads` if
/// that is not 0, otherwise the string "n_head" if present, otherwise width / 64. Throws
/// std::invalid_argument if width / 64 is needed but is not a whole number.
GptOptions gpt2_options(const StateDict& file, std::size_t heads = 0);

/// Replaces all weights except adapters and memories. An untied head gets wte.weight if the file
/// has no head. Needs memory for copies of one linear layer. Everything is checked before anything
/// changes: names, shapes, the number of heads and, if the model's head is tied, that
/// lm_head.weight equals wte.weight.
void load_gpt2_weights(GptModel& model, const StateDict& file);

/// Returns a copy of the weights, with the string "n_head". Unless the head is tied, includes
/// lm_head.weight and puts "transformer." before other names, as Hugging Face does.
StateDict gpt2_weights(GptModel& model);

/// Throws std::invalid_argument, in the name of `caller`, if the layout cannot describe the model.
void check_gpt2_layout(std::string_view caller, const GptOptions& options);

}  // namespace rowgrad
