// Trains an embedding for a step, and saves and reads it, with nothing but the installed library.

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/optim/sgd.hpp>

int main() {
  using namespace rowgrad;

  Embedding embedding(zeros({5, 3}));
  SGD sgd(embedding.parameters(), {.learning_rate = 0.25});
  Tape tape;
  tape.backward(sum(embedding.forward(tape, Ids{1, 3, 3})));
  sgd.step();

  const auto path = std::filesystem::temp_directory_path() / "rowgrad-consumer.safetensors";
  write_safetensors(path, embedding.state_dict());
  const Checkpoint file = read_safetensors(path);
  std::filesystem::remove(path);

  const Tensor expected = {{0, 0, 0}, {-.25, -.25, -.25}, {0, 0, 0}, {-.5, -.5, -.5}, {0, 0, 0}};
  const bool right = file.tensor("weight", {5, 3}) == expected;
  std::cout << (right ? "rows 1 and 3 were trained" : "the table is wrong") << ", with numbers of "
            << sizeof(real) << " bytes\n";
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
