// Compares GPT-2's layout with a file that tests/golden/make_gpt2_weights.py wrote.

#include "tests/support/process.hpp"
#include "tests/test.hpp"

namespace {

const std::string kFile = ROWGRAD_TEST_DATA "/gpt2_weights.safetensors";

StateDict published() { return read_safetensors(kFile); }

// Returns the file with the prefix "transformer.", which newer files have.
StateDict prefixed(const StateDict& file) {
  StateDict result;
  result.put("transformer", file);
  return result;
}

GptOptions small(bool tied) {
  return {.vocabulary = 20,
          .context = 12,
          .width = 8,
          .heads = 2,
          .layers = 2,
          .qkv_bias = true,
          .tie_weights = tied};
}

TEST(Gpt2Weights, GiveTheSameLogitsAsPyTorch) {
  const json expected = golden("gpt2_weights.json");
  for (const StateDict& file : {published(), prefixed(published())}) {
    GptModel model(gpt2_options(file, expected["heads"]), Random(1));
    load_gpt2_weights(model, file);
    Tape tape(Tape::kInference);
    expect_near(
        model.forward(tape, to_ids(expected["ids"].get<std::vector<std::int32_t>>())).value(),
        tensor_from(expected["logits"]), sizeof(real) == 8 ? 1e-10 : 1e-5);
  }
}

TEST(Gpt2Weights, DetermineTheModelOptions) {
  const auto bits = [](const GptOptions& options) { return bits_of(gpt_options_state(options)); };
  EXPECT_TRUE(bits(gpt2_options(published(), 2)) == bits(small(true)));
  EXPECT_TRUE(bits(gpt2_options(with(published(), "n_head", "2"))) == bits(small(true)));
  EXPECT_EQ(gpt2_options(published(), 4).heads, 4U);
  GptOptions wide = small(true);
  wide.width = 128;
  GptModel model(wide, Random(1));
  EXPECT_EQ(gpt2_options(without(gpt2_weights(model), "n_head")).heads, 2U);
}

TEST(Gpt2Weights, SupportTiedAndSeparateHeads) {
  const Tensor table = published().tensor("wte.weight", {20, 8});
  const Tensor other = irregular({20, 8});
  struct Case {
    StateDict file;
    Tensor head;
    bool is_tied;
  };
  for (const Case& item :
       std::vector<Case>{{published(), table, true},
                         {with(published(), "lm_head.weight", table), table, true},
                         {with(prefixed(published()), "lm_head.weight", other), other, false}}) {
    EXPECT_EQ(gpt2_options(item.file, 2).tie_weights, item.is_tied);
    for (const bool tied : {false, item.is_tied}) {
      GptModel model(small(tied), Random(1));
      load_gpt2_weights(model, item.file);
      EXPECT_EQ(model.head.weight.value(), item.head);
    }
  }
}

TEST(Gpt2Weights, RoundTripBitForBit) {
  const TemporaryFolder folder;
  for (const bool tied : {false, true}) {
    GptModel model(small(tied), Random(7));
    write_safetensors(folder / "file", gpt2_weights(model));
    const StateDict file = read_safetensors(folder / "file");
    EXPECT_EQ(file.contains("transformer.h.1.mlp.c_proj.bias"), !tied);
    EXPECT_EQ(file.string("format"), "pt");
    GptModel again(gpt2_options(file), Random(8));
    load_gpt2_weights(again, file);
    EXPECT_TRUE(bits_of(again.state_dict()) == bits_of(model.state_dict()));
    EXPECT_TRUE(bits_of(gpt2_weights(again)) == bits_of(file));
  }
  GptModel model(small(true), Random(7));
  StateDict file = published();
  load_gpt2_weights(model, file);
  for (const char* mask : {"h.0.attn.bias", "h.1.attn.bias", "h.1.attn.masked_bias"})
    file.erase(mask);
  EXPECT_TRUE(bits_of(gpt2_weights(model)) == bits_of(with(file, "n_head", "2")));
}

TEST(Gpt2Weights, ReadmeExampleWorks) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFile, folder / "model.safetensors");
  Random random(1);
  {
    const CurrentFolder here(folder.path());
    // [weights]
    const StateDict file = read_safetensors("model.safetensors");
    GptModel model(gpt2_options(file, 2), random);
    load_gpt2_weights(model, file);
    write_safetensors("mine.safetensors", gpt2_weights(model));
    // [weights]
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "mine.safetensors"));
}

TEST(Gpt2Weights, AreRejectedBeforeAnythingChanges) {
  const StateDict file = published();
  GptOptions deeper = small(true);
  deeper.layers = 3;
  struct Case {
    StateDict file;
    std::string message;
    GptOptions options = small(true);
  };
  for (
      const Case& item : std::vector<Case>{
          {without(file, "h.1.attn.c_proj.bias"), "StateDict: \"h.1.attn.c_proj.bias\" is missing"},
          {without(prefixed(file), "transformer.ln_f.bias"),
           "StateDict: \"transformer.ln_f.bias\" is missing"},
          {with(file, "h.0.mlp.c_fc.weight", irregular({32, 8})),
           "StateDict: \"h.0.mlp.c_fc.weight\" has shape [32, 8], expected [8, 32]"},
          {with(file, "h.0.attn.c_attn.bias", irregular({8})),
           "StateDict: \"h.0.attn.c_attn.bias\" has shape [8], expected [24]"},
          {with(file, "ln_f.gain", irregular({8})),
           "load_gpt2_weights: unexpected name \"ln_f.gain\", expected names of 2 layers as in the "
           "model"},
          {with(file, "h.2.attn.bias", irregular({8})),
           "load_gpt2_weights: unexpected name \"h.2.attn.bias\", expected names of 2 layers as in "
           "the model"},
          {with(file, "lm_head.weight", irregular({20, 8})),
           "load_gpt2_weights: \"lm_head.weight\" differs from \"wte.weight\", expected equal "
           "values, as the model's head is tied"},
          {with(file, "lm_head.weight", irregular({19, 8})),
           "StateDict: \"lm_head.weight\" has shape [19, 8], expected [20, 8]", small(false)},
          {with(file, "n_head", "4"),
           "load_gpt2_weights: the file has 4 heads, expected 2 as in the model"},
          {file, "StateDict: \"h.2.ln_1.weight\" is missing", deeper}}) {
    GptModel model(item.options, Random(1));
    const std::string before = bits_of(model.state_dict());
    EXPECT_INVALID(item.message, load_gpt2_weights(model, item.file));
    EXPECT_TRUE(bits_of(model.state_dict()) == before) << item.message;
  }
}

TEST(Gpt2Weights, AreRejectedWithoutModelSizes) {
  const StateDict file = published();
  for (const char* name : {"wte.weight", "wpe.weight", "h.0.ln_1.weight"})
    EXPECT_INVALID(concat("StateDict: ", InQuotes(name), " is missing"),
                   gpt2_options(without(file, name), 2));
  EXPECT_INVALID("gpt2_options: \"wpe.weight\" has shape [8], expected [rows, width]",
                 gpt2_options(with(file, "wpe.weight", irregular({8})), 2));
  EXPECT_INVALID(
      "gpt2_options: the number of heads is unknown, and width 8 is not a multiple of 64: expected "
      "`heads` above 0",
      gpt2_options(file));
  for (const char* heads : {"", "0", "-2", "2 or 3", "99999999999999999999"})
    EXPECT_INVALID(concat("gpt2_options: the string \"n_head\" is \"", heads,
                          "\", expected a whole number above 0"),
                   gpt2_options(with(file, "n_head", heads)));
}

TEST(Gpt2Weights, RejectModelsOutsideTheLayout) {
  GptOptions positions = small(true), qkv_bias = small(true), bias = small(true);
  positions.positions = Positions::kRotary;
  qkv_bias.qkv_bias = false;
  bias.bias = false;
  for (const auto& [options, got] :
       {std::pair(positions, "positions that are not learned, expected learned positions"),
        std::pair(qkv_bias, "no bias in query, key and value, expected qkv_bias"),
        std::pair(bias, "no bias in linear layers and norms, expected bias")}) {
    GptModel model(options, Random(1));
    EXPECT_INVALID(concat("gpt2_weights: the model has ", got), gpt2_weights(model));
    EXPECT_INVALID(concat("load_gpt2_weights: the model has ", got),
                   load_gpt2_weights(model, published()));
  }
  GptOptions memories = small(true);
  memories.memories = {
      .blocks = {0}, .ngrams = {.heads = 1, .rows = 11}, .memory = {.head_width = 3}};
  GptModel model(memories, Random(1));
  EXPECT_INVALID("gpt2_weights: the layout has no place for \"memories.0.conv\" [8, 4]",
                 gpt2_weights(model));
}

}  // namespace
