// Measures causal attention alone, for a batch of two sequences and 12 heads of width 64.

#include <cstdio>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/ops/attention.hpp>

int main() {
  using namespace rowgrad;
  for (const std::size_t length : {64U, 256U, 1024U}) {
    Random random(1);
    const Tensor x = random.normal({2, length, 768}), upstream = full(x.shape(), 1);
    const auto milliseconds = [&](bool backward) {
      const auto attend = [&] {
        Tape tape(backward ? Tape::kGradient : Tape::kInference);
        const Variable y =
            causal_attention(tape.input(x), tape.input(x), tape.input(x), {.heads = 12});
        if (backward) tape.backward(y, upstream);
      };
      return 1e3 * bench::time_runs(attend, {}).median_seconds;
    };
    std::printf("length %4zu: forward %.2f ms, forward and backward %.2f ms\n", length,
                milliseconds(false), milliseconds(true));
  }
}
