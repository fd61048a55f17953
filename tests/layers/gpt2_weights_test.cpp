// GPT-2's layout, against a file that tests/golden/make_gpt2_weights.py wrote, and read again by
// PyTorch.

#include <cstdio>
#include <sys/wait.h>

#include "tests/test.hpp"

namespace {

const std::string kFile = ROWGRAD_TEST_DATA "/gpt2_weights.safetensors";

Checkpoint published() { return read_safetensors(kFile); }

// The same with the names that newer files have.
Checkpoint prefixed(const Checkpoint& file) {
  Checkpoint result;
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

Tensor logits_of(GptModel& model, const std::vector<std::int32_t>& ids) {
  model.eval();
  Tape tape(Tape::inference);
  return model.forward(tape, to_ids(ids)).value();
}

TEST(Gpt2Weights, GiveTheLogitsOfPyTorch) {
  const json expected = golden("gpt2_weights.json");
  for (const Checkpoint& file : {published(), prefixed(published())}) {
    GptModel model(gpt2_options(file, expected["heads"]), Random(1));
    load_gpt2_weights(model, file);
    expect_near(logits_of(model, expected["ids"]), tensor_from(expected["logits"]),
                sizeof(real) == 8 ? 1e-10 : 1e-5);
  }
}

TEST(Gpt2Weights, TellTheOptionsOfTheirModel) {
  const GptOptions options = gpt2_options(published(), 4);
  EXPECT_EQ(options.vocabulary, 20U);
  EXPECT_EQ(options.context, 12U);
  EXPECT_EQ(options.width, 8U);
  EXPECT_EQ(options.heads, 4U);
  EXPECT_EQ(options.layers, 2U);
  EXPECT_TRUE(options.qkv_bias && options.bias && options.tie_weights);
  EXPECT_EQ(gpt2_options(with(published(), "n_head", "2")).heads, 2U);

  GptOptions wide = small(true);
  wide.width = 128;
  GptModel model(wide, Random(1));
  EXPECT_EQ(gpt2_options(without(gpt2_weights(model), "n_head")).heads, 2U);
}

TEST(Gpt2Weights, HaveAHeadOfTheirOwnOrThatOfTheTable) {
  const Tensor table = published().tensor("wte.weight", {20, 8});
  const Tensor other = irregular({20, 8});
  const auto head_after_loading = [](const Checkpoint& file, bool tied) {
    GptModel model(small(tied), Random(1));
    load_gpt2_weights(model, file);
    return model.head.weight.copy();
  };
  const Checkpoint none = published();
  const Checkpoint same = with(published(), "lm_head.weight", table);
  const Checkpoint own = with(prefixed(published()), "lm_head.weight", other);
  EXPECT_TRUE(gpt2_options(none, 2).tie_weights);
  EXPECT_TRUE(gpt2_options(same, 2).tie_weights);
  EXPECT_FALSE(gpt2_options(own, 2).tie_weights);
  for (const bool tied : {false, true}) {
    EXPECT_EQ(head_after_loading(none, tied), table);
    EXPECT_EQ(head_after_loading(same, tied), table);
  }
  EXPECT_EQ(head_after_loading(own, false), other);
}

TEST(Gpt2Weights, ComeBackBitForBit) {
  const TemporaryFolder folder;
  for (const bool tied : {false, true}) {
    GptModel model(small(tied), Random(7));
    write_safetensors(folder / "file", gpt2_weights(model));
    const Checkpoint file = read_safetensors(folder / "file");
    EXPECT_EQ(file.contains("transformer.h.1.mlp.c_proj.bias"), !tied);
    EXPECT_EQ(file.text("format"), "pt");
    GptModel again(gpt2_options(file), Random(8));
    load_gpt2_weights(again, file);
    EXPECT_TRUE(bits_of(again.state_dict()) == bits_of(model.state_dict()));
    EXPECT_TRUE(bits_of(gpt2_weights(again)) == bits_of(file));
  }
  GptModel model(small(true), Random(7));
  Checkpoint file = published();
  load_gpt2_weights(model, file);
  for (const char* mask : {"h.0.attn.bias", "h.1.attn.bias", "h.1.attn.masked_bias"})
    file.erase(mask);
  EXPECT_TRUE(bits_of(gpt2_weights(model)) == bits_of(with(file, "n_head", "2")));
}

TEST(Gpt2Weights, GoInAndOutAsTheReadmeSays) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFile, folder / "model.safetensors");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  Random random(1);
  {
    // [weights]
    const Checkpoint file = read_safetensors("model.safetensors");
    GptModel model(gpt2_options(file, 2), random);
    load_gpt2_weights(model, file);
    write_safetensors("mine.safetensors", gpt2_weights(model));
    // [weights]
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(folder / "mine.safetensors"));
}

TEST(Gpt2Weights, AreRefusedBeforeAnythingChangesIfTheyDoNotFit) {
  const auto refusal = [](const Checkpoint& file, const GptOptions& options = small(true)) {
    GptModel model(options, Random(1));
    const std::string before = bits_of(model.state_dict());
    const std::string message =
        error_of<std::invalid_argument>([&] { load_gpt2_weights(model, file); });
    EXPECT_TRUE(bits_of(model.state_dict()) == before) << message;
    return message;
  };
  const Checkpoint file = published();
  EXPECT_EQ(refusal(without(file, "h.1.attn.c_proj.bias")),
            "Checkpoint: \"h.1.attn.c_proj.bias\" is missing");
  EXPECT_EQ(refusal(without(prefixed(file), "transformer.ln_f.bias")),
            "Checkpoint: \"transformer.ln_f.bias\" is missing");
  EXPECT_EQ(refusal(with(file, "h.0.mlp.c_fc.weight", irregular({32, 8}))),
            "Checkpoint: \"h.0.mlp.c_fc.weight\" has shape [32, 8], expected [8, 32]");
  EXPECT_EQ(refusal(with(file, "h.0.attn.c_attn.bias", irregular({8}))),
            "Checkpoint: \"h.0.attn.c_attn.bias\" has shape [8], expected [24]");
  EXPECT_EQ(refusal(with(file, "wpe.weight", 3)), "Checkpoint: \"wpe.weight\" is not a tensor");
  EXPECT_EQ(refusal(with(file, "ln_f.gain", irregular({8}))),
            "load_gpt2_weights: unexpected \"ln_f.gain\", the model has 2 layers");
  EXPECT_EQ(refusal(with(file, "h.2.attn.bias", irregular({8}))),
            "load_gpt2_weights: unexpected \"h.2.attn.bias\", the model has 2 layers");
  EXPECT_EQ(refusal(with(file, "lm_head.weight", irregular({20, 8}))),
            "load_gpt2_weights: \"lm_head.weight\" differs from \"wte.weight\", expected the same "
            "numbers, as the model's head is tied");
  EXPECT_EQ(refusal(with(file, "lm_head.weight", irregular({19, 8})), small(false)),
            "Checkpoint: \"lm_head.weight\" has shape [19, 8], expected [20, 8]");
  EXPECT_EQ(refusal(with(file, "n_head", "4")),
            "load_gpt2_weights: the model has 2 heads, expected 4, as the file says");
  GptOptions deeper = small(true);
  deeper.layers = 3;
  EXPECT_EQ(refusal(file, deeper), "Checkpoint: \"h.2.ln_1.weight\" is missing");
}

TEST(Gpt2Weights, AreRefusedIfTheyTellNoModel) {
  const auto refusal = [](const Checkpoint& file, std::size_t heads = 2) {
    return error_of<std::invalid_argument>([&] { gpt2_options(file, heads); });
  };
  const Checkpoint file = published();
  EXPECT_EQ(refusal({}), "Checkpoint: \"wte.weight\" is missing");
  EXPECT_EQ(refusal(without(file, "wpe.weight")), "Checkpoint: \"wpe.weight\" is missing");
  EXPECT_EQ(refusal(without(file, "h.0.ln_1.weight")),
            "Checkpoint: \"h.0.ln_1.weight\" is missing");
  EXPECT_EQ(refusal(with(file, "wpe.weight", irregular({8}))),
            "gpt2_options: \"wpe.weight\" has shape [8], expected [rows, width]");
  EXPECT_EQ(refusal(file, 0),
            "gpt2_options: the width is 8, which is no multiple of 64: expected the number of "
            "heads");
  for (const char* heads : {"", "0", "-2", "2 or 3", "99999999999999999999"})
    EXPECT_EQ(refusal(with(file, "n_head", heads), 0),
              concat("gpt2_weights: the text \"n_head\" is \"", heads,
                     "\", expected a whole number above 0"));
}

TEST(Gpt2Weights, AreRefusedForModelsThatTheLayoutCannotDescribe) {
  const auto expect_refused = [](const std::function<void(GptOptions&)>& change,
                                 const std::string& got) {
    GptOptions options = small(true);
    change(options);
    GptModel model(options, Random(1));
    EXPECT_INVALID("gpt2_weights: the model has " + got, gpt2_weights(model));
    EXPECT_INVALID("load_gpt2_weights: the model has " + got,
                   load_gpt2_weights(model, published()));
  };
  for (const Positions positions : {Positions::kNone, Positions::kSinusoidal, Positions::kRotary,
                                    Positions::kAlibi, Positions::kT5})
    expect_refused([&](GptOptions& options) { options.positions = positions; },
                   "other positions, expected learned ones");
  expect_refused([](GptOptions& options) { options.qkv_bias = false; },
                 "query, key and value without bias, expected qkv_bias");
  expect_refused([](GptOptions& options) { options.bias = false; },
                 "linear layers and norms without bias, expected one in each");
}

TEST(Gpt2Weights, AreReadByPyTorch) {
  const TemporaryFolder folder;
  const std::string ids = "10 0 3 3 9 6 1";
  for (const bool tied : {false, true}) {
    GptModel model({.vocabulary = 11,
                    .context = 9,
                    .width = 12,
                    .heads = 3,
                    .layers = 3,
                    .qkv_bias = true,
                    .tie_weights = tied},
                   Random(3));
    int seed = 0;
    for (Parameter* parameter : model.parameters())  // no two are alike, as norms are at the start
      parameter->assign(parameter->value() + irregular(parameter->shape(), ++seed, -0.4, 0.4));
    write_safetensors(folder / "model.safetensors", gpt2_weights(model));

    const std::string command =
        concat("/usr/bin/python3 ", ROWGRAD_TEST_DATA, "/gpt2_logits.py '",
               (folder / "model.safetensors").string(), "' 3 ", ids, " 2>&1");
    FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output;
    std::array<char, 4096> block;
    while (const std::size_t length = std::fread(block.data(), 1, block.size(), pipe))
      output.append(block.data(), length);
    const int status = pclose(pipe);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
      GTEST_SKIP() << "needs /usr/bin/python3 and python3-torch";
    ASSERT_EQ(status, 0) << output;
    expect_near(logits_of(model, {10, 0, 3, 3, 9, 6, 1}), tensor_from(json::parse(output)), 1e-5);
  }
}

}  // namespace
