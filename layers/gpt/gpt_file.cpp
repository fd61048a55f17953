#include <cstdint>
#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/layers/gpt/gpt_file.hpp>

namespace rowgrad {
namespace {

// Calls visit(name, option) for each option and, where it is an enumeration, visit(name, option,
// its last value): files have the numbers of these.
void for_each_option(auto& options, const auto& visit) {
  visit("vocabulary", options.vocabulary);
  visit("context", options.context);
  visit("width", options.width);
  visit("heads", options.heads);
  visit("layers", options.layers);
  visit("positions", options.positions, Positions::kShaw);
  visit("dropout", options.dropout);
  visit("qkv_bias", options.qkv_bias);
  visit("bias", options.bias);
  visit("tie_weights", options.tie_weights);
  visit("gelu", options.gelu, Gelu::kErf);
  visit("norm_epsilon", options.norm_epsilon);
  visit("initialization", options.initialization, Initialization::kGpt2);
  visit("rotary_layout", options.rotary_layout, RotaryLayout::kInterleaved);
  visit("rotary_base", options.rotary_base);
  visit("t5_buckets", options.t5_buckets);
  visit("t5_max_distance", options.t5_max_distance);
  visit("shaw_max_distance", options.shaw_max_distance);
  auto& [blocks, ngrams, memory, files] = options.memories;
  visit("memories.blocks", blocks);
  visit("memories.orders", ngrams.orders);
  visit("memories.heads", ngrams.heads);
  visit("memories.rows", ngrams.rows);
  visit("memories.seed", ngrams.seed);
  visit("memories.canonical", ngrams.canonical);
  visit("memories.head_width", memory.head_width);
  visit("memories.kernel", memory.kernel);
  visit("memories.starts_silent", memory.starts_silent);
  visit("memories.norm_epsilon", memory.norm_epsilon);
}

GptOptions options_in(const Checkpoint& state) {
  GptOptions options;
  for_each_option(options, [&](const char* name, auto& option, auto... last) {
    using Option = std::remove_reference_t<decltype(option)>;
    if constexpr (std::is_floating_point_v<Option>) {
      option = state.number(name);
    } else if constexpr (std::is_integral_v<Option> || std::is_enum_v<Option>) {
      const auto number = static_cast<std::uint64_t>(state.integer(name));
      const bool is_known = ((number <= static_cast<std::uint64_t>(last)) && ...) &&
                            (!std::is_same_v<Option, bool> || number <= 1);
      check_argument(is_known, "the option ", in_quotes(name), " is ", number,
                     ", which stands for nothing");
      option = static_cast<Option>(number);
    } else {
      const std::vector<std::int64_t> numbers = state.integers(name);
      option.assign(numbers.begin(), numbers.end());
    }
  });
  return options;
}

}  // namespace

Checkpoint gpt_options_state(const GptOptions& options) {
  Checkpoint state;
  for_each_option(options, [&](const char* name, const auto& option, auto...) {
    using Option = std::remove_cvref_t<decltype(option)>;
    if constexpr (std::is_floating_point_v<Option>)
      state.put(name, option);
    else if constexpr (std::is_integral_v<Option> || std::is_enum_v<Option>)
      state.put(name, static_cast<std::int64_t>(option));
    else
      state.put(name, std::vector<std::int64_t>(option.begin(), option.end()));
  });
  return state;
}

void save_gpt(const std::filesystem::path& path, const GptModel& model,
              const Tokenizer& tokenizer) {
  Checkpoint file;
  file.put("gpt", gpt_options_state(model.options()));
  file.put("tokenizer", tokenizer.to_json());
  file.put("model", model.state_dict());
  write_safetensors(path, file);
}

SavedGpt load_gpt(const std::filesystem::path& path, const std::vector<TableFile*>& tables) {
  const Checkpoint file = read_safetensors(path);
  const Checkpoint state = file.part("gpt");
  check_runtime(!state.empty(), path.string(), ": has no options of a GPT");
  try {
    GptOptions options = options_in(state);
    options.memories.files = tables;
    // Before the model takes memory for what a damaged file says.
    file.check_shape("model.token.weight", {options.vocabulary, options.width});
    file.check_shape(concat("model.blocks.", options.layers - 1, ".norm1.weight"), {options.width});
    if (options.positions == Positions::kLearned)
      file.check_shape("model.position.weight", {options.context, options.width});
    auto tokenizer = tokenizer_from_json(file.text("tokenizer"));
    check_argument(tokenizer->size() <= options.vocabulary, "its tokenizer has ", tokenizer->size(),
                   " tokens, expected at most its model's ", options.vocabulary);
    Random random(0);  // what it draws is overwritten
    SavedGpt saved{std::move(tokenizer), std::make_unique<GptModel>(options, random)};
    saved.model->load_state_dict(file.part("model"));
    return saved;
  } catch (const std::exception& error) {
    throw std::runtime_error(concat(path.string(), ": is no whole GPT: ", error.what()));
  }
}

}  // namespace rowgrad
