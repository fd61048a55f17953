// Trains an embedding for one step, with a custom op, and saves and loads it. Uses only the
// installed library and its header rowgrad.hpp.

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

// Returns x + y, broadcast.
Variable shifted(const Variable& x, const Variable& y) {
  Tensor value = kernels::broadcast_map("shifted", std::plus<>(), x.read(), y.read());
  return record("shifted", {x, y}, std::move(value), [](Backward& node) {
    for (std::size_t i = 0; i < 2; ++i)
      if (GradientSlot slot = node.slot(i))
        slot.take(kernels::sum_to(node.gradient(), node.input_shape(i)));
  });
}

int main() {
  Embedding embedding(zeros({5, 3}));
  SGD sgd(embedding.parameters(), {.learning_rate = 0.25});
  Tape tape;
  const Variable shift = tape.input(zeros({3}));
  tape.backward(sum(shifted(embedding.forward(tape, Ids{1, 3, 3}), shift)));
  sgd.step();

  const auto path = std::filesystem::temp_directory_path() / "rowgrad-consumer.safetensors";
  write_safetensors(path, embedding.state_dict());
  const StateDict file = read_safetensors(path);
  std::filesystem::remove(path);

  const Tensor expected = {{0, 0, 0}, {-.25, -.25, -.25}, {0, 0, 0}, {-.5, -.5, -.5}, {0, 0, 0}};
  const bool right =
      file.tensor("weight", {5, 3}) == expected && tape.gradient(shift).dense() == full({3}, 3);
  std::cout << (right ? "rows 1 and 3 were trained" : "the table is wrong") << ", with values of "
            << sizeof(real) << " bytes\n";
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
