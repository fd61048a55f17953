// A language model of one's own, complete: trained by a TrainingRun, evaluated, and asked for a
// text, which it reads token by token.
//   own_model examples/data/the-slow-clock.txt

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

/// h_t = tanh(token_t + recurrent(h_{t−1})), logits_t = head(h_t) (Elman 1990, "Finding Structure
/// in Time").
class RecurrentModel : public LanguageModel {
 public:
  RecurrentModel(std::size_t vocabulary, std::size_t context, std::size_t width, Random& random)
      : token(*this, "token", vocabulary, width, random),
        recurrent(*this, "recurrent", width, width, random),
        head(*this, "head", width, vocabulary, random),
        context_(context) {}

  Variable before_head(Tape& tape, const Ids& ids) override { return states(tape, ids); }
  Linear* output() override { return &head; }

  /// LanguageModel's reader would read the whole text again for each token.
  std::unique_ptr<TextReader> reader() override { return std::make_unique<Reader>(*this); }

  std::size_t context() const override { return context_; }
  std::size_t vocabulary() const override { return token.weight.shape()[0]; }

  Part<Embedding> token;
  Part<Linear> recurrent;
  Part<Linear> head;

 private:
  class Reader : public TextReader {
   public:
    explicit Reader(RecurrentModel& model) : model_(model) {}

    Tensor read(std::span<const std::int32_t> ids) override {
      check_argument(!ids.empty() && read_ + ids.size() <= model_.context(),
                     "RecurrentModel: cannot read ", ids.size(), " ids after ", read_,
                     ", the context is ", model_.context());
      const EvaluationMode mode(model_);
      Tape tape(Tape::inference);
      Ids batch = to_ids(ids);
      batch.reshape(Ids::shape_type{1, ids.size()});
      const Variable last = split(model_.states(tape, batch, state_), 1, 1).back();
      const Tensor logits = model_.head.forward(last).value();
      state_ = squeeze(last, 1).value();  // only now, so that a failed call can be made again
      read_ += ids.size();
      return reshaped(logits, {model_.vocabulary()});
    }

   private:
    RecurrentModel& model_;
    std::optional<Tensor> state_;  // after the last token that was read
    std::size_t read_ = 0;
  };

  // ids [batch, length] → [batch, length, width]; `before` is the state [batch, width] that they
  // follow, zeros at the beginning of a text.
  Variable states(Tape& tape, const Ids& ids, const std::optional<Tensor>& before = {}) {
    check_argument(ids.dimension() == 2 && ids.shape(1) > 0 && ids.shape(1) <= context_,
                   "RecurrentModel: ids have shape ", bracketed(ids.shape()),
                   ", expected [batch, length] with a length from 1 to the context, ", context_);
    const std::size_t width = token.weight.shape()[1];
    Variable state = tape.constant(before ? *before : zeros({ids.shape(0), width}));
    std::vector<Variable> all;
    for (const Variable& row : split(token.forward(tape, ids), 1, 1)) {
      state = tanh(squeeze(row, 1) + recurrent.forward(state));
      all.push_back(state);
    }
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
                   .epochs = 10});
  run.train();
  const Ids more =
      generate(model, tokenizer.encode("The clock"), {.count = 80, .temperature = 0.5}, random);
  std::cout << model.summary() << "\nepoch  training  validation\n" << std::fixed;
  for (const TrainingRecord& record : run.history())
    std::cout << std::setw(5) << record.epoch << std::setprecision(3) << std::setw(10)
              << record.training_loss << std::setw(12) << *record.validation_loss << '\n';
  std::cout << "\nThe clock" << tokenizer.decode(more) << '\n';
  const auto& history = run.history();
  const bool learned = *history.back().validation_loss < *history.front().validation_loss;
  return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
