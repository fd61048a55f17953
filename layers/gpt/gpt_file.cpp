#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/layers/gpt/gpt_file.hpp>
#include <rowgrad/layers/gpt/lora.hpp>

namespace rowgrad {
namespace {

// Calls visit(name, option) for each option or, for an enumeration or a seed, visit(name, option,
// largest value). Files store enumerations as integers, and a seed may use all 64 bits.
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
  visit("memories.seed", ngrams.seed, std::numeric_limits<std::uint64_t>::max());
  visit("memories.canonical", ngrams.canonical);
  visit("memories.head_width", memory.head_width);
  visit("memories.kernel", memory.kernel);
  visit("memories.starts_silent", memory.zero_init);
  visit("memories.norm_epsilon", memory.norm_epsilon);
}

constexpr std::uint64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();

GptOptions options_in(const StateDict& state) {
  GptOptions options;
  for_each_option(options, [&](const char* name, auto& option, auto... last) {
    using Option = std::remove_reference_t<decltype(option)>;
    const auto check = [&](bool is_valid, std::int64_t number, std::uint64_t largest) {
      check_argument(is_valid, "the option ", in_quotes(name), " is ", number, ", expected 0 to ",
                     largest);
    };
    if constexpr (std::is_floating_point_v<Option>) {
      option = state.number(name);
    } else if constexpr (std::is_integral_v<Option> || std::is_enum_v<Option>) {
      const std::int64_t number = state.integer(name);
      std::uint64_t largest = std::is_same_v<Option, bool> ? 1 : kMaxNumber;
      ((largest = static_cast<std::uint64_t>(last)), ...);
      check(static_cast<std::uint64_t>(number) <= largest, number, largest);
      option = static_cast<Option>(number);
    } else {
      const std::vector<std::int64_t> numbers = state.integers(name);
      for (const std::int64_t number : numbers)
        check(std::in_range<typename Option::value_type>(number), number,
              std::min<std::uint64_t>(kMaxNumber,
                                      std::numeric_limits<typename Option::value_type>::max()));
      option.assign(numbers.begin(), numbers.end());
    }
  });
  return options;
}

// Throws std::invalid_argument if options and tensors in the file disagree on sizes, before a model
// allocates memory. Only learned and sinusoidal positions have a tensor with `context` rows, so the
// context is not checked for other models.
void check_sizes(const StateDict& model, const GptOptions& options) {
  const std::size_t width = options.width;
  model.check_shape("token.weight", {options.vocabulary, width});
  std::size_t block = options.layers;  // for 0 layers, --block wraps, and the check fails
  do model.check_shape(concat("blocks.", --block, ".attention.out.weight"), {width, width});
  while (block > 0);
  if (options.positions == Positions::kLearned)
    model.check_shape("position.weight", {options.context, width});
  if (options.positions == Positions::kSinusoidal)
    model.check_shape("sinusoidal.table", {options.context, width});
  if (options.positions == Positions::kT5)
    model.check_shape("t5_table", {options.t5_buckets, options.heads});
  if (options.positions == Positions::kShaw)
    model.check_shape("shaw_keys", {2 * options.shaw_max_distance + 1,
                                    width / std::max<std::size_t>(options.heads, 1)});
  const auto& [blocks, ngrams, memory, files] = options.memories;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const NgramHash hash(options.vocabulary, ngrams, blocks, blocks[i]);
    const std::string name = concat("memories.", i);
    if (files.empty())
      model.check_shape(name + ".table.weight", {hash.table_rows(), memory.head_width});
    model.check_shape(name + ".key.weight", {width, hash.lookups() * memory.head_width});
    model.check_shape(name + ".conv", {width, memory.kernel});
  }
}

}  // namespace

StateDict gpt_options_state(const GptOptions& options) {
  StateDict state;
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
  check_argument(
      typeid(model) == typeid(GptModel),
      "save_gpt: got a class derived from GptModel, expected a GptModel, the only class that "
      "load_gpt constructs; save state_dict() with write_safetensors instead");
  StateDict file;
  file.put("gpt", gpt_options_state(model.options()));
  file.put("tokenizer", tokenizer.to_json());
  file.put("model", model.state_dict());
  write_safetensors(path, file);
}

SavedGpt load_gpt(const std::filesystem::path& path, const std::vector<TableFile*>& tables) {
  return load_gpt(read_safetensors(path), path.string(), tables);
}

SavedGpt load_gpt(const StateDict& file, const std::string& name,
                  const std::vector<TableFile*>& tables) {
  const StateDict state = file.part("gpt");
  check_runtime(!state.empty(), name, ": not a saved GPT: the options \"gpt\" are missing");
  const StateDict model = file.part("model");
  // For a table in a table file, the model's state dict has only a checkpoint id.
  const auto in_files = std::ranges::count_if(model.names(), [&](const std::string& key) {
    return key.ends_with("table.weight") && std::holds_alternative<std::string>(model.at(key));
  });
  check_argument(std::cmp_equal(tables.size(), in_files), "load_gpt: tables has size ",
                 tables.size(), ", expected ", in_files, ", the number of table files of ", name);
  try {
    GptOptions options = options_in(state);
    options.memories.files = tables;
    check_sizes(model, options);
    auto tokenizer = tokenizer_from_json(file.string("tokenizer"));
    check_argument(tokenizer->size() <= options.vocabulary, "the tokenizer has ", tokenizer->size(),
                   " tokens, expected at most the model's ", options.vocabulary);
    Random random(0);  // drawn values are overwritten
    SavedGpt saved{std::move(tokenizer), std::make_unique<GptModel>(options, random)};
    const std::vector<std::string> names = model.names();
    const bool has_adapters =
        std::ranges::any_of(names, [](const std::string& key) { return key.ends_with("lora_a"); });
    if (has_adapters) load_lora(*saved.model, model);
    saved.model->load_state_dict(model);
    return saved;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(concat(name, ": not a complete GPT: ", error.what()));
  }
}

}  // namespace rowgrad
