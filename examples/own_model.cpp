// Trains a custom language model, evaluates it after each epoch, and then generates text.
//   own_model examples/data/the-slow-clock.txt

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

/// A recurrent network: h_t = tanh(token_t + recurrent(h_{t−1})), logits_t = head(h_t) (Elman 1990,
/// "Finding Structure in Time").
class RecurrentModel : public LanguageModel {
 public:
  RecurrentModel(std::size_t vocabulary, std::size_t context, std::size_t width, Random& random)
      : token(*this, "token", vocabulary, width, random, EmbeddingOptions{.kind = RowKind::kToken}),
        recurrent(*this, "recurrent", width, width, random),
        head(*this, "head", width, vocabulary, random),
        context_(context) {}

  Variable hidden_states(Tape& tape, const Ids& ids) override {
    return states(tape.constant(zeros({ids.shape(0), token.weight.shape()[1]})), ids);
  }
  Linear* output_layer() override { return &head; }
  std::size_t context() const override { return context_; }
  std::size_t vocabulary() const override { return token.weight.shape()[0]; }

  /// Returns a decoder that reads each token once. The default rereads the whole text each time.
  std::unique_ptr<IncrementalDecoder> decoder() override {
    return std::make_unique<Decoder>(*this);
  }

  /// Returns decoder(), which works past the context because its state does not grow.
  std::unique_ptr<IncrementalDecoder> sliding_decoder() override { return decoder(); }

  Submodule<Embedding> token;
  Submodule<Linear> recurrent;
  Submodule<Linear> head;

 private:
  // A decoder that keeps the state [1, width] after the last token.
  class Decoder : public IncrementalDecoder {
   public:
    explicit Decoder(RecurrentModel& model)
        : model_(model), state_(zeros({1, model.token.weight.shape()[1]})) {}

    Tensor next_logits(std::span<const std::int32_t> ids) override {
      const EvaluationMode mode(model_);
      Tape tape(Tape::kInference);
      Ids text = to_ids(ids);
      text.reshape(Ids::shape_type{1, ids.size()});
      const Variable last = split(model_.states(tape.constant(state_), text), 1, 1).back();
      const Tensor logits = model_.head.forward(last).value();
      state_ = squeeze(last, 1).value();  // assigned last, so a failed call has no effect
      return reshaped(logits, {model_.vocabulary()});
    }

   private:
    RecurrentModel& model_;
    Tensor state_;
  };

  // Returns the states [batch, length, width] that follow `state` [batch, width], one for each id.
  Variable states(Variable state, const Ids& ids) {
    std::vector<Variable> all;
    for (const Variable& row : split(token.forward(state.tape(), ids), 1, 1))
      all.push_back(state = tanh(squeeze(row, 1) + recurrent.forward(state)));
    return stack(all, 1);
  }

  std::size_t context_;
};

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: own_model examples/data/the-slow-clock.txt\n";
    return EXIT_FAILURE;
  }
  const std::string text = read_file(argv[1]);
  const auto tokenizer = CharacterTokenizer::from_text(text);
  const std::size_t cut = text.rfind('\n', text.size() * 9 / 10);
  const auto windows = [&](std::string_view part) {
    return TokenWindows(tokenizer.encode(part), {.context = 32, .stride = 32});
  };
  Random random(123);
  RecurrentModel model(tokenizer.size(), 32, 64, random);
  AdamW optimizer(model.parameters(), {.learning_rate = 5e-3});
  DataLoader loader(windows(text.substr(0, cut)), {.batch = 8, .shuffle = true});
  DataLoader validation(windows(text.substr(cut)), {.batch = 8});
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .validation = &validation,
                   .clip_norm = 1,
                   .epochs = 10,
                   .evaluation = {.accuracy = true}});
  run.train();
  const Ids more = generate(model, tokenizer.encode("The clock"),
                            {.max_new_tokens = 80, .temperature = 0.5}, random);
  std::cout << model.summary() << "\nepoch  training  validation  accuracy\n" << std::fixed;
  for (const TrainingRecord& record : run.history())
    std::cout << std::setw(5) << record.epoch << std::setprecision(3) << std::setw(10)
              << record.training_loss << std::setw(12) << *record.validation_loss << std::setw(10)
              << *record.validation_accuracy << '\n';
  std::cout << "\nThe clock" << tokenizer.decode(more) << '\n';
  const auto& history = run.history();
  const bool learned = *history.back().validation_loss < *history.front().validation_loss;
  return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
