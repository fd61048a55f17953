#include "tests/test.hpp"

namespace {

GptOptions saved_options(std::size_t vocabulary) {
  GptOptions options{.vocabulary = vocabulary,
                     .context = 6,
                     .width = 8,
                     .heads = 2,
                     .layers = 2,
                     .positions = Positions::kT5,
                     .qkv_bias = true,
                     .tie_weights = true,
                     .gelu = Gelu::kErf,
                     .norm_epsilon = 1e-6,
                     .t5_buckets = 4,
                     .t5_max_distance = 5};
  options.memories = {.blocks = {1, 0},
                      .ngrams = {.orders = {2}, .heads = 2, .rows = 11, .seed = ~std::uint64_t{0}},
                      .memory = {.head_width = 3, .kernel = 2, .norm_epsilon = 1e-4}};
  options.memories.ngrams.canonical.assign(vocabulary, 1);
  return options;
}

TEST(GptFile, RestoresModelAndTokenizer) {
  const TemporaryFolder folder;
  Random random(1);
  const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
  GptModel model(saved_options(tokenizer.size()), random);
  save_gpt(folder / "gpt", model, tokenizer);
  const SavedGpt saved = load_gpt(folder / "gpt");
  EXPECT_EQ(saved.tokenizer->to_json(), tokenizer.to_json());
  EXPECT_TRUE(bits_of(saved.model->state_dict()) == bits_of(model.state_dict()));
  EXPECT_TRUE(bits_of(gpt_options_state(saved.model->options())) ==
              bits_of(gpt_options_state(model.options())));

  GptOptions options = model.options();
  options.memories.blocks = {1};
  TableFile table(folder / "table", {.rows = 24, .width = 3});
  options.memories.files = {&table};
  auto in_file = std::make_unique<GptModel>(options, random);
  save_gpt(folder / "gpt", *in_file, tokenizer);
  const std::string bits = bits_of(in_file->state_dict());
  in_file.reset();  // releases the table file
  EXPECT_TRUE(bits_of(load_gpt(folder / "gpt", {&table}).model->state_dict()) == bits);
}

TEST(GptFile, RestoresAdapters) {
  const TemporaryFolder folder;
  Random random(1);
  const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
  GptModel model(saved_options(tokenizer.size()), random);
  add_lora(model, "blocks.*.query,blocks.1.*", {.rank = 2, .alpha = 3}, random);
  for (Parameter* adapter : model.parameters("*lora_b"))
    adapter->assign(wave(adapter->shape(), 0.9, 0.4, 1));
  save_gpt(folder / "gpt", model, tokenizer);
  const SavedGpt saved = load_gpt(folder / "gpt");
  GptModel& loaded = *saved.model;
  EXPECT_TRUE(bits_of(loaded.state_dict()) == bits_of(model.state_dict()));
  EXPECT_EQ(loaded.trainable_parameter_count(), model.trainable_parameter_count());
  Tape tape(Tape::kInference);
  const Ids text = ids({1, 3}, {1, 2, 3});
  EXPECT_EQ(loaded.forward(tape, text).value(), model.forward(tape, text).value());
}

TEST(GptFile, RejectsDerivedClasses) {
  struct Derived : GptModel {
    using GptModel::GptModel;
  };
  const TemporaryFolder folder;
  Random random(1);
  const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
  Derived model(saved_options(tokenizer.size()), random);
  EXPECT_ERROR_WITH(std::invalid_argument, "save_gpt: got a class derived from GptModel",
                    save_gpt(folder / "gpt", model, tokenizer));
  EXPECT_FALSE(file_exists(folder / "gpt"));
}

TEST(GptFile, RejectsIncompleteFilesByName) {
  const TemporaryFolder folder;
  Random random(1);
  const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
  GptModel model(saved_options(tokenizer.size()), random);
  const std::filesystem::path path = folder / "gpt";
  save_gpt(path, model, tokenizer);
  const StateDict whole = read_safetensors(path);
  const auto refusal = [&](const StateDict& file) {
    write_safetensors(path, file);
    return error_of<std::runtime_error>([&] { load_gpt(path); });
  };
  EXPECT_EQ(refusal(whole.part("model")),
            concat(path.string(), ": not a saved GPT: the options \"gpt\" are missing"));
  const std::string begin = path.string() + ": not a complete GPT: ";
  EXPECT_EQ(refusal(without(whole, "gpt.heads")), begin + "StateDict: \"gpt.heads\" is missing");
  for (const int layers : {0, 3})
    EXPECT_TRUE(refusal(with(whole, "gpt.layers", layers))
                    .starts_with(begin + "StateDict: \"model.blocks."));
  EXPECT_HAS(refusal(without(whole, "tokenizer")), begin);
  EXPECT_HAS(refusal(without(whole, "model.norm.weight")), begin);
  const auto larger = CharacterTokenizer::from_text("abcdefghijklm");
  EXPECT_EQ(refusal(with(whole, "tokenizer", larger.to_json())),
            concat(begin, "the tokenizer has 13 tokens, expected at most the model's ",
                   tokenizer.size()));
  EXPECT_ERROR(std::runtime_error,
               concat("cannot read ", (folder / "none").string(), ": No such file or directory"),
               load_gpt(folder / "none"));
  EXPECT_INVALID(concat("load_gpt: tables has size 1, expected 0, the number of table files of ",
                        path.string()),
                 load_gpt(path, {nullptr}));
}

// A damaged file may claim any size, even a size that exceeds memory.
TEST(GptFile, ChecksSizesBeforeAllocatingTheModel) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "gpt";
  const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
  const auto expect_refusal = [&](Positions positions, const std::string& option, auto value,
                                  const std::string& message) {
    Random random(1);
    GptOptions options = saved_options(tokenizer.size());
    options.positions = positions;
    GptModel model(options, random);
    save_gpt(path, model, tokenizer);
    write_safetensors(path, with(read_safetensors(path), "gpt." + option, value));
    EXPECT_EQ(error_of<std::runtime_error>([&] { load_gpt(path); }),
              concat(path.string(), ": not a complete GPT: ", message));
  };
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const auto has = [](const char* name, const std::string& shape, const char* expected) {
    return concat("StateDict: \"model.", name, "\" has shape ", shape, ", expected ", expected);
  };
  const auto invalid_value = [](const char* name, std::int64_t number, std::int64_t largest) {
    return concat("the option \"", name, "\" is ", number, ", expected 0 to ", largest);
  };
  const std::size_t size = tokenizer.size();
  expect_refusal(Positions::kT5, "vocabulary", kMany,
                 has("token.weight", concat("[", size, ", 8]"), "[1099511627776, 8]"));
  expect_refusal(Positions::kT5, "t5_buckets", kMany,
                 has("t5_table", "[4, 2]", "[1099511627776, 2]"));
  expect_refusal(Positions::kShaw, "shaw_max_distance", kMany,
                 has("shaw_keys", "[33, 4]", "[2199023255553, 4]"));
  expect_refusal(Positions::kShaw, "heads", 0, has("shaw_keys", "[33, 4]", "[33, 8]"));
  expect_refusal(Positions::kLearned, "context", 7, has("position.weight", "[6, 8]", "[7, 8]"));
  expect_refusal(Positions::kSinusoidal, "context", kMany,
                 has("sinusoidal.table", "[6, 8]", "[1099511627776, 8]"));
  expect_refusal(Positions::kT5, "memories.rows", 1'000'000,
                 has("memories.0.table.weight", "[24, 3]", "[2000036, 3]"));
  expect_refusal(Positions::kT5, "memories.kernel", kMany,
                 has("memories.0.conv", "[8, 2]", "[8, 1099511627776]"));
  expect_refusal(Positions::kT5, "gelu", 2, invalid_value("gelu", 2, 1));
  expect_refusal(Positions::kT5, "bias", 2, invalid_value("bias", 2, 1));
  expect_refusal(Positions::kT5, "context", -1, invalid_value("context", -1, kLargest));
  expect_refusal(Positions::kT5, "memories.orders", std::vector<std::int64_t>{-2},
                 invalid_value("memories.orders", -2, kLargest));
  expect_refusal(Positions::kT5, "memories.canonical", std::vector<std::int64_t>(size, kMany + 1),
                 invalid_value("memories.canonical", kMany + 1, INT32_MAX));
}

}  // namespace
