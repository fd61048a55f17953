// Whole small GPTs, one for each kind of position, trained on The Verdict step by step as PyTorch
// does in float64.

#include "tests/test.hpp"

namespace {

// Double: the two programs add the same numbers in another order. Float: 2^-24 a rounding.
constexpr double kRelative = sizeof(real) == 8 ? 1e-10 : 2e-5;

GptOptions options_of(const json& model) {
  const std::string positions = model["positions"];
  return {.vocabulary = model["vocabulary"],
          .context = model["context"],
          .width = model["width"],
          .heads = model["heads"],
          .layers = model["layers"],
          .positions = positions == "learned" ? Positions::kLearned
                       : positions == "alibi" ? Positions::kAlibi
                       : positions == "t5"    ? Positions::kT5
                                              : Positions::kRotary,
          .qkv_bias = model["qkv_bias"],
          .tie_weights = model["head"] == "tied",
          .norm_epsilon = model["norm_epsilon"],
          .t5_buckets = 8,
          .t5_max_distance = 32};
}

// "block.0.feed_forward.2.weight" → "blocks.0.feed_forward.down.weight".
std::string our_name(std::string name) {
  const auto replace = [&name](const std::string& from, const std::string& to) {
    if (const auto at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("block.", "blocks.");
  replace("feed_forward.0", "feed_forward.up");
  replace("feed_forward.2", "feed_forward.down");
  return name == "token" || name == "position" ? name + ".weight" : name;
}

std::unique_ptr<Optimizer> optimizer_of(const json& run, const std::vector<Parameter*>& all) {
  const json& options = run["options"];
  const double rate = options["lr"];
  const double decay = options.value("weight_decay", 0.0);
  if (run["optimizer"] == "AdamW")
    return std::make_unique<AdamW>(all, AdamWOptions{.learning_rate = rate, .weight_decay = decay});
  if (run["optimizer"] == "Adam")
    return std::make_unique<Adam>(all, AdamOptions{.learning_rate = rate, .weight_decay = decay});
  return std::make_unique<SGD>(
      all,
      SgdOptions{.learning_rate = rate, .momentum = options["momentum"], .weight_decay = decay});
}

class GptStory : public PublishedData, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(GptStory, FollowsPyTorchStepByStep) {
  const json run = golden("gpt_story.json")["runs"][GetParam()];
  const GptOptions options = options_of(run["model"]);
  std::vector<std::int32_t> ids = verdict_ids();
  for (std::int32_t& id : ids) id %= static_cast<std::int32_t>(options.vocabulary);

  GptModel model(options, Random(0));
  std::map<std::string, Parameter*> parameters;
  for (Parameter* parameter : model.parameters()) parameters[parameter->name()] = parameter;
  const json& listing = run["parameters"];
  ASSERT_EQ(parameters.size(), listing.size());
  for (std::size_t i = 0; i < listing.size(); ++i) {
    Parameter& parameter = *parameters.at(our_name(listing[i]["name"]));
    const auto k = static_cast<double>(i);
    Tensor start = wave(parameter.shape(), 0.37 + 0.011 * k, 0.5 * k, listing[i]["scale"]);
    start += listing[i]["plus"].get<real>();
    parameter.assign(start);
  }

  const auto optimizer = optimizer_of(run, model.parameters());
  DataLoader loader(
      TokenWindows(to_ids(ids), {.context = options.context, .stride = run["stride"]}),
      {.batch = run["batch"], .drop_last = true});
  const auto losses = run["loss"].get<std::vector<double>>();
  const auto norms = run["gradient_norm"].get<std::vector<double>>();
  const double clip = run["clip_norm"].is_null() ? 0 : run["clip_norm"].get<double>();
  for (std::size_t step = 0; step < losses.size();) {
    for (const Batch& batch : loader) {
      optimizer->zero_grad();
      Tape tape;
      const Variable loss = model.loss(tape, batch.inputs, batch.targets);
      tape.backward(loss);
      ASSERT_NEAR(loss.item(), losses[step], kRelative * losses[step]) << "step " << step;
      const double norm =
          clip > 0 ? clip_grad_norm(model.parameters(), clip) : gradient_norm(model.parameters());
      ASSERT_NEAR(norm, norms[step], 10 * kRelative * norms[step]) << "step " << step;
      optimizer->step();
      if (++step == losses.size()) break;
    }
  }

  for (const auto& [name, expected] : run["norm_after"].items()) {
    // Its gradient is 0, for it adds the same to the scores of all keys. So Adam makes steps of
    // rounding errors.
    if (sizeof(real) == 4 && name.ends_with("key.bias")) continue;
    const Tensor& value = parameters.at(our_name(name))->value();
    const double squares = std::inner_product(value.begin(), value.end(), value.begin(), 0.0);
    EXPECT_NEAR(std::sqrt(squares), expected.get<double>(), 10 * kRelative * expected.get<double>())
        << name;
    // A sum of hundreds of values of either sign is known to their rounding, not to its own.
    EXPECT_NEAR(std::accumulate(value.begin(), value.end(), 0.0), run["sum_after"][name],
                10 * kRelative * std::sqrt(static_cast<double>(value.size())))
        << name;
  }

  const auto expected = run["greedy_after_first_window"].get<std::vector<std::int32_t>>();
  Random random(1);
  const Ids continued = generate(model, to_ids(std::span(ids).first(options.context)),
                                 {.count = expected.size(), .temperature = 0}, random);
  EXPECT_EQ(std::vector<std::int32_t>(continued.begin(), continued.end()), expected);
}

INSTANTIATE_TEST_SUITE_P(Golden, GptStory, ::testing::Range<std::size_t>(0, 5));

}  // namespace
