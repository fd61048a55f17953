// Fine-tunes a small GPT with a new head, with masked targets and with low-rank adapters, and
// compares the results with PyTorch in float64. See tests/golden/make_fine_tune.py.

#include "tests/support/models.hpp"
#include "tests/test.hpp"

namespace {

constexpr std::size_t kClasses = 3;

GptOptions options() {
  return {.vocabulary = 13, .context = 8, .width = 8, .heads = 2, .layers = 2};
}

std::vector<Ids> texts() {
  std::vector<Ids> all;
  for (const std::int32_t length : {8, 5, 3, 7, 2, 6, 8, 4}) {
    const auto k = static_cast<std::int32_t>(all.size());
    std::vector<std::int32_t> text;
    for (std::int32_t i = 0; i < length; ++i) text.push_back((5 * i * i + 3 * k * i + k) % 13);
    all.push_back(to_ids(text));
  }
  return all;
}

std::vector<TrainingExample> class_examples() {
  std::vector<TrainingExample> examples;
  for (const Ids& text : texts())
    examples.push_back(classification_example(text, examples.size() % kClasses));
  return examples;
}

// Returns examples whose prompt is the first half of a document.
std::vector<TrainingExample> answer_examples() {
  std::vector<TrainingExample> examples;
  for (const Ids& text : texts()) {
    const std::span all(text.data(), text.size());
    const std::size_t prompt = std::max<std::size_t>(1, text.size() / 2);
    examples.push_back(answer_example(to_ids(all.first(prompt)), to_ids(all.subspan(prompt)), 1));
  }
  return examples;
}

// Returns the name without "body.", which PyTorch's model does not have.
std::string name_in_pytorch(const Parameter& parameter) {
  const std::string& name = parameter.name();
  return name.starts_with("body.") ? name.substr(5) : name;
}

// Assigns PyTorch's initial values, by parameter name.
void start(Layer& model, const json& run) {
  std::map<std::string, Parameter*> parameters;
  for (Parameter* parameter : model.parameters()) {
    if (parameter->name() == "body.head.weight") continue;  // PyTorch's model has no old head
    parameters[name_in_pytorch(*parameter)] = parameter;
  }
  double k = 0;
  for (const std::string name : run["parameters"]) {
    Parameter& parameter = *parameters.at(name);
    Tensor values = wave(parameter.shape(), 0.37 + 0.011 * k, 0.5 * k, 0.3);
    if (name.find("norm") != std::string::npos && name.ends_with(".weight")) values += real{1};
    if (name.ends_with("lora_b")) values = zeros(parameter.shape());
    parameter.assign(values);
    ++k;
  }
}

void expect_same_training(TextModel& model, TokenWindows windows, const char* run_name,
                          const CrossEntropyOptions& loss = {}, std::size_t slices = 1) {
  const json runs = golden("fine_tune.json")["cases"];
  const json run =
      *std::ranges::find(runs, json(run_name), [](const json& each) { return each["name"]; });
  start(model, run);
  EXPECT_EQ(model.trainable_parameter_count(), run["trained_numbers"]);
  const StateDict before = model.state_dict();
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-2, .weight_decay = 0.1});
  DataLoader loader(std::move(windows), {.batch = 4});
  Random random(1);
  model.set_loss(loss);
  TrainingRun training({.model = model,
                        .optimizer = optimizer,
                        .loader = loader,
                        .random = random,
                        .slices = slices,
                        .steps = run["loss"].size()});
  Losses losses;
  training.add(losses);
  training.train();
  const Tensor expected = tensor_from(run["loss"]);
  ASSERT_EQ(losses.all.size(), expected.size());
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 2e-4;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(losses.all[i], expected(i), tolerance * expected(i)) << "step " << i;
  std::size_t trained = 0;
  for (const Parameter* parameter : model.parameters()) {
    const std::string name = name_in_pytorch(*parameter);
    if (!parameter->trainable()) {
      EXPECT_EQ(parameter->value(), before.tensor(parameter->name(), parameter->shape())) << name;
      continue;
    }
    ++trained;
    const auto expect = [&](const Tensor& got, const char* which, double in_float) {
      expect_near(got, reshaped(tensor_from(run[which][name]), got.shape()),
                  sizeof(real) == 8 ? 1e-10 : in_float, concat(which, ' ', name));
    };
    expect(Gradient(parameter->gradient()).take_dense(), "last_gradients", 2e-3);
    // AdamW normalizes gradients, so a rounding error in a gradient near 0 can change the sign of
    // an update.
    expect(parameter->value(), "after", 2e-2);
  }
  EXPECT_EQ(trained, run["last_gradients"].size());
}

TEST(FineTuning, NewHeadAndLastBlockMatchPyTorch) {
  for (const std::size_t slices : {1, 2}) {
    GptModel model(options(), Random(1));
    model.freeze();
    model.unfreeze("blocks.1.*,norm.*");
    Random random(1);
    TextClassifier classifier(model, kClasses, random);
    expect_same_training(classifier, padded_windows(class_examples()), "last",
                         {.class_weights = Tensor{0.5, 1, 2}}, slices);
  }
}

TEST(FineTuning, MeanPoolingMatchesPyTorch) {
  GptModel model(options(), Random(1));
  model.head.freeze();
  Random random(1);
  TextClassifier classifier(model, kClasses, random, {.pooling = Pooling::kMean});
  expect_same_training(classifier, padded_windows(class_examples()), "mean");
}

TEST(FineTuning, AnswerTargetsMatchPyTorch) {
  for (const std::size_t slices : {1, 3}) {
    GptModel model(options(), Random(1));
    expect_same_training(model, padded_windows(answer_examples(), {.context = 8}), "masked", {},
                         slices);
  }
}

TEST(FineTuning, AdaptersMatchPyTorchAndCanBeSavedAndMerged) {
  GptModel model(options(), Random(1));
  Random random(1);
  TextClassifier classifier(model, kClasses, random);
  const std::size_t without_adapters = classifier.parameter_count();
  EXPECT_EQ(add_lora(classifier, "body.blocks.*,head", {.rank = 2, .alpha = 8}, random), 13U);
  expect_same_training(classifier, padded_windows(class_examples()), "lora");

  const auto logits = [&](TextModel& of) {
    Tape tape(Tape::kInference);
    Ids text = texts().front();
    text.reshape(Ids::shape_type{1, text.size()});
    return of.forward(tape, text).value();
  };
  const StateDict adapters = lora_state(classifier);
  EXPECT_EQ(adapters.names().size(), 3 * 13U);
  const Tensor with_adapters = logits(classifier);

  // Another model with the same initial weights loads the saved adapters.
  GptModel same(options(), Random(1));
  TextClassifier loaded(same, kClasses, random);
  loaded.load_state_dict(classifier.state_dict(), {.strict = false});
  load_lora(loaded, adapters);
  EXPECT_EQ(logits(loaded), with_adapters);

  merge_lora(classifier);
  expect_near(logits(classifier), with_adapters, 200 * kEpsilon);
  EXPECT_EQ(classifier.trainable_parameter_count(), 0U);
  EXPECT_EQ(classifier.parameter_count(), without_adapters);
}

TEST(FineTuning, ReadmeExampleWorks) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::size_t>> reviews = {
      {"yes, a fine story", 1}, {"no", 0}, {"fine", 1}};
  const auto tokenizer = CharacterTokenizer::from_text("abcdefghijklmnopqrstuvwxyz, .?\n");
  const GptOptions options{
      .vocabulary = tokenizer.size(), .context = 32, .width = 8, .heads = 2, .layers = 2};
  const StateDict pretrained = GptModel(options, Random(1)).state_dict();
  // [classes]
  Random random(123);
  GptModel model(options, random);
  model.load_state_dict(pretrained);  // or load_gpt2_weights(model, file)
  model.freeze();
  model.unfreeze("blocks.1.*,norm.*");
  TextClassifier classifier(model, 2, random);
  classifier.set_loss({.class_weights = Tensor{2, 1}});
  std::vector<TrainingExample> examples;
  for (const auto& [text, label] : reviews)
    examples.push_back(classification_example(tokenizer.encode(text), label));
  DataLoader loader(padded_windows(examples), {.batch = 2, .shuffle = true});
  AdamW optimizer(classifier.parameters(), {.learning_rate = 5e-3, .weight_decay = 0.1});
  TrainingRun run({.model = classifier,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .epochs = 5});
  run.train();
  const Score score = *evaluate(classifier, loader, {.accuracy = true});
  // [classes]
  EXPECT_GT(*score.accuracy, 0.6);
  classifier.set_loss({});  // without class weights
  EXPECT_LT(evaluate(classifier, loader)->loss, std::log(2.0));
  const std::filesystem::path path = folder / "adapters.safetensors";
  // [adapters]
  add_lora(classifier, "body.blocks.*.query,body.blocks.*.value,head", {.rank = 4, .alpha = 8},
           random);
  AdamW adapter_optimizer(classifier.parameters(), {.learning_rate = 5e-3});
  // … train, as before
  write_safetensors(path, lora_state(classifier));  // 5 adapters of two small matrices
  merge_lora(classifier);                           // adds the adapters to the weights
  // [adapters]
  EXPECT_EQ(read_safetensors(path).names().size(), 15U);

  const std::string question = "a story?";
  const std::string answer = "yes.";
  const std::int32_t end = tokenizer.encode("\n")[0];
  // [answers]
  const std::vector<TrainingExample> answers{
      answer_example(tokenizer.encode(question), tokenizer.encode(answer), end)};
  DataLoader answer_loader(packed_windows(answers, {.context = 32, .padding = end}), {.batch = 8});
  // [answers]
  EXPECT_EQ(answer_loader.dataset()->size(), 1U);
}

}  // namespace
