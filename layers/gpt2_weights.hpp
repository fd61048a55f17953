#pragma once

// GPT-2's weights in the layout of Hugging Face's model.safetensors, read and written:
//
//   const Checkpoint file = read_safetensors("model.safetensors");
//   GptModel model(gpt2_options(file), random);
//   load_gpt2_weights(model, file);
//   write_safetensors("mine.safetensors", gpt2_weights(model));
//
// Beside "wte.weight" [vocabulary, width], "wpe.weight" [context, width] and "ln_f", each layer has
// "h.0.ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc" and "mlp.c_proj". The weights of
// linear layers are [inputs, outputs], and the columns of c_attn are query, key and value. The head
// is "lm_head.weight" if that is there, else wte.weight. All names but the head's may start with
// "transformer.". Masks ("attn.bias", "attn.masked_bias") are ignored.

#include <cstddef>
#include <string_view>

#include <rowgrad/core/tensor/checkpoint.hpp>
#include <rowgrad/layers/gpt_model.hpp>

namespace rowgrad {

/// The options of the model in a file, without dropout, and with OpenAI's GELU and norm_epsilon,
/// of which the weights tell nothing. Its head is tied unless lm_head.weight
/// differs from wte.weight. The weights do not tell how many heads there are: they are `heads`
/// unless it is 0, else what the text "n_head" says if there is one, else width / 64 as in all of
/// OpenAI's. Throws std::invalid_argument if a table or the first layer is missing or malformed,
/// and if the heads remain unknown.
GptOptions gpt2_options(const Checkpoint& file, std::size_t heads = 0);

/// Replaces all weights of the model. A head that is not tied gets wte.weight if the file has none.
/// Needs memory for one linear layer. Throws std::invalid_argument, before anything changes, for
/// names that are missing or unexpected, for other shapes or another number of heads, for a
/// lm_head.weight that differs from wte.weight if the model's head is tied, and for a model that
/// the layout cannot describe.
void load_gpt2_weights(GptModel& model, const Checkpoint& file);

/// A copy of the weights with the text "n_head". As in Hugging Face's own files, names start with
/// "transformer." if there is a lm_head.weight, that is, if the head is not tied. Throws
/// std::invalid_argument for a model that the layout cannot describe.
Checkpoint gpt2_weights(GptModel& model);

/// Throws std::invalid_argument naming `caller` for a model that the layout cannot describe: one
/// with positions that are not learned, or without a bias anywhere.
void check_gpt2_layout(std::string_view caller, const GptOptions& options);

}  // namespace rowgrad
