// A minimal program: trains a model on a sentence for a few steps, and prints the losses and the
// rows that got gradients in the last step.

#include <iostream>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

int main() {
  const std::string text = "the cat sat on the mat, and the dog sat on the cat";
  // [step]
  const auto tokenizer = WordTokenizer::from_text(text);
  DataLoader loader(TokenWindows(tokenizer.encode(text), {.context = 4, .stride = 4}),
                    {.batch = 2});
  NextTokenModel model({.vocabulary = tokenizer.size(), .context = 4, .width = 32}, Random(123));
  SGD sgd(model.parameters(), {.learning_rate = 0.1});
  for (const Batch& batch : loader.epoch(0)) {
    sgd.zero_grad();
    Tape tape;
    const Variable loss = model.loss(tape, batch);
    tape.backward(loss);
    sgd.step();
    std::cout << "loss " << loss.item() << '\n';
  }
  // [step]
  // [rows]
  for (const auto [row, values] : model.token.weight.gradient().rows())
    std::cout << "row " << row << " '" << tokenizer.token(row) << "' " << values.front() << " …\n";
  // [rows]
}
