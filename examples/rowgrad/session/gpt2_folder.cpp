#include <algorithm>
#include <stdexcept>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/session/gpt2_folder.hpp>
#include <rowgrad/layers/gpt/gpt2_weights.hpp>

namespace rowgrad {
namespace {

constexpr const char* kWeights = "model.safetensors";

}  // namespace

StateDict read_gpt2_weights(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kWeights;
  const std::string advice =
      concat("examples/texts.sh --gpt2 ", folder.string(),
             " (installed in share/doc/rowgrad) downloads and checks GPT-2's weights");
  check_runtime(file_exists(path), "--gpt2: no such file: ", path.string(), "; ", advice);
  try {
    return read_safetensors(path);
  } catch (const std::runtime_error& error) {  // for example, an incomplete download
    throw std::runtime_error(concat(error.what(), "; ", advice));
  }
}

GptOptions read_gpt2_config(const std::filesystem::path& folder) {
  GptOptions shape{.heads = 0, .qkv_bias = true};
  const std::filesystem::path path = folder / "config.json";
  if (!file_exists(path)) return shape;
  const Json config(read_file(path), path.string());
  if (const Json* heads = config.find("n_head")) shape.heads = heads->whole_number();
  if (const Json* activation = config.find("activation_function")) {
    const std::string& name = activation->string();
    check_runtime(name == "gelu" || name == "gelu_new" || name == "gelu_pytorch_tanh",
                  path.string(), ": got activation_function ", in_quotes(name),
                  ", expected \"gelu_new\" or \"gelu\"");
    shape.gelu = name == "gelu" ? Gelu::kErf : Gelu::kTanh;
  }
  if (const Json* epsilon = config.find("layer_norm_epsilon")) {
    shape.norm_epsilon = epsilon->number();
    check_runtime(shape.norm_epsilon >= 0, path.string(), ": got layer_norm_epsilon ",
                  shape.norm_epsilon, ", expected at least 0");
  }
  return shape;
}

StateDict read_gpt2(const CommandLine& line, const std::string& folder, TrainOptions& options) {
  StateDict weights = read_gpt2_weights(folder);
  check_runtime(weights.contains("wte.weight") || weights.contains("transformer.wte.weight"),
                (std::filesystem::path(folder) / kWeights).string(),
                ": not the weights of a GPT-2: \"wte.weight\" is missing");
  const std::string positions =
      weights.contains("wpe.weight") ? "wpe.weight" : "transformer.wpe.weight";
  const GptOptions config = read_gpt2_config(folder);
  GptOptions shape = gpt2_options(weights, config.heads);
  shape.gelu = config.gelu;
  shape.norm_epsilon = config.norm_epsilon;
  shape.dropout = options.gpt.dropout;
  shape.memories = options.gpt.memories;
  const std::size_t most = std::exchange(shape.context, options.gpt.context);
  options.gpt = shape;
  std::size_t& context = options.gpt.context;
  if (!line.was_given("--context")) context = std::min(context, most);
  if (!line.was_given("--stride")) options.stride = context;
  check_argument(context <= most, "--context ", context, " exceeds the context of the weights, ",
                 most);
  const Tensor table = weights.tensor(positions, {most, shape.width});
  Tensor first = empty({context, shape.width});
  std::copy_n(table.data(), first.size(), first.data());
  weights.erase(positions);
  weights.put(positions, std::move(first));
  return weights;
}

std::filesystem::path gpt2_config_path(const std::filesystem::path& weights) {
  const bool device = file_exists(weights) && !std::filesystem::is_regular_file(weights);
  return weights.empty() || device ? "" : weights.parent_path() / "config.json";
}

std::string gpt2_config(const GptOptions& options) {
  Json config{{"model_type", "gpt2"},
              {"architectures", std::vector<std::string>{"GPT2LMHeadModel"}},
              {"vocab_size", options.vocabulary},
              {"n_positions", options.context},
              {"n_embd", options.width},
              {"n_layer", options.layers},
              {"n_head", options.heads},
              {"activation_function", options.gelu == Gelu::kErf ? "gelu" : "gelu_new"},
              {"layer_norm_epsilon", options.norm_epsilon},
              {"tie_word_embeddings", options.tie_weights},
              {"embd_pdrop", options.dropout},
              {"attn_pdrop", options.dropout},
              {"resid_pdrop", options.dropout}};
  // Hugging Face's default is GPT-2's <|endoftext|>, which does not exist in other vocabularies.
  if (options.vocabulary != 50257)
    for (const char* key : {"bos_token_id", "eos_token_id"}) config[key] = Json();
  return config.dump(2) + "\n";
}

}  // namespace rowgrad
