// Calls that the headers document as thread-safe, made by several threads at the same time. The
// results must equal the results of a single thread. tests/thread_sanitizer.sh runs these tests
// under ThreadSanitizer.

#include "tests/test.hpp"

namespace {

constexpr std::size_t kThreads = 4;

// Must be the first test of the file: if only this file runs, BLAS has not selected a kernel yet.
TEST(Threads, MakeTheirFirstProductsConcurrently) {
  constexpr std::size_t kSide = 64;
  const Tensor a = irregular({kSide, kSide}, 1);
  const Tensor b = irregular({kSide, kSide}, 2);
  const auto product = [&] {
    Tensor result = empty({kSide, kSide});
    blas::prepare();
    blas::gemm({a.data(), kSide, kSide}, {b.data(), kSide, kSide}, {result.data(), kSide, kSide});
    return result;
  };
  std::array<Tensor, kThreads> results;
  std::array<std::string, kThreads> kernels;
  at_once(kThreads, [&](std::size_t i) {
    results[i] = product();
    kernels[i] = blas::describe();
  });
  for (std::size_t i = 0; i < kThreads; ++i) {
    EXPECT_EQ(results[i], product());
    EXPECT_EQ(kernels[i], blas::describe());
  }
}

TEST(Threads, ShareTheThreadCount) {
  for (const int count : {3, 1}) {
    const Threads set(count);
    at_once(2, [&](std::size_t) { EXPECT_EQ(thread_count(), count); });
  }
}

TEST(Threads, ShareTheBufferPool) {
  at_once(kThreads, [](std::size_t i) {
    const auto mark = static_cast<unsigned char>(i + 1);
    for (std::size_t round = 0; round < 200; ++round) {
      std::array<std::size_t, 3> sizes{64 + 64 * (round % 5), 5000, std::size_t{2} << 20};
      std::array<void*, 3> blocks;
      for (std::size_t k = 0; k < 3; ++k) {
        blocks[k] = BufferPool::allocate(sizes[k]);
        std::memset(blocks[k], mark, std::min<std::size_t>(sizes[k], 4096));
      }
      for (std::size_t k = 0; k < 3; ++k) {
        const auto* bytes = static_cast<const unsigned char*>(blocks[k]);
        ASSERT_EQ(bytes[0], mark);
        ASSERT_EQ(bytes[63], mark);
        BufferPool::deallocate(blocks[k], sizes[k]);
      }
      if (round % 50 == i) BufferPool::release_idle();
      ASSERT_GE(BufferPool::statistics().system_requests, 3U);
    }
  });
}

// Trains parameters of its own for 30 steps, and returns the loss of each step.
std::vector<real> train(int seed) {
  Parameter table("table", irregular({50, 6}, seed));
  Parameter weight("weight", irregular({4, 6}, seed + 1));
  Adam adam({&table, &weight}, {.learning_rate = 0.01});
  std::vector<real> losses;
  for (std::int32_t step = 0; step < 30; ++step) {
    adam.zero_grad();
    Tape tape;
    const Variable rows = embedding(tape.parameter(table), ids({2, 2}, {step, 3, 3, 49 - step}));
    const Variable out = linear(rows, tape.parameter(weight), std::nullopt);
    const Variable loss = sum(out * out);
    tape.backward(loss);
    losses.push_back(loss.item());
    adam.step();
  }
  return losses;
}

TEST(Threads, TrainOnSeparateTapes) {
  std::vector<std::vector<real>> alone;
  for (int i = 0; i < static_cast<int>(kThreads); ++i) alone.push_back(train(i));
  at_once(kThreads, [&](std::size_t i) { EXPECT_EQ(train(static_cast<int>(i)), alone[i]); });
}

TEST(Threads, UseATapeInTurn) {
  Tape tape;
  Variable x = tape.input(scalar(1));
  for (int i = 0; i < 3; ++i) std::thread([&] { x = x * real{2}; }).join();
  std::thread([&] { tape.backward(x); }).join();
  EXPECT_EQ(x.item(), 8);
}

TEST(Threads, ReadATokenFileConcurrently) {
  TemporaryFolder folder;
  Ids32 ids(20'000);
  std::iota(ids.begin(), ids.end(), 0);
  write_file(folder / "ids", {reinterpret_cast<const char*>(ids.data()), 4 * ids.size()});
  const TokenFile file(folder / "ids", {.raw_bytes = 4});
  at_once(kThreads, [&](std::size_t thread) {
    Ids32 some(1000);
    for (std::size_t begin = thread; begin < 19'000; begin += 97) {
      file.read(begin, some);
      ASSERT_TRUE(std::ranges::equal(some, std::span(ids).subspan(begin, 1000)));
    }
  });
}

TEST(Threads, WriteFilesConcurrently) {
  TemporaryFolder folder;
  const auto contents = [](std::size_t i) { return std::string(5000 + i, static_cast<char>(i)); };
  at_once(kThreads, [&](std::size_t i) {
    write_file(folder / "shared", contents(i));
    write_file(folder / std::to_string(i), contents(i));
  });
  const std::string shared = read_file(folder / "shared");  // complete, from one thread
  EXPECT_EQ(shared, contents(shared.size() - 5000));
  for (std::size_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(read_file(folder / std::to_string(i)), contents(i));
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), static_cast<std::ptrdiff_t>(kThreads + 1));
}

void expect_the_same_in_threads(const Tokenizer& tokenizer, const std::string& text) {
  const EncodeOptions options{.allowed_special = {std::string(kEndOfText)}};
  const std::string marked = text + std::string(kEndOfText) + text;
  const auto expected = values(tokenizer.encode(marked, options));
  const std::string decoded = tokenizer.decode(expected);
  const std::string json = tokenizer.to_json();
  at_once(kThreads, [&](std::size_t) {
    for (int round = 0; round < 5; ++round) {
      ASSERT_EQ(values(tokenizer.encode(marked, options)), expected);
      ASSERT_EQ(tokenizer.decode(expected), decoded);
      ASSERT_EQ(tokenizer.to_json(), json);
      ASSERT_EQ(tokenizer.vocabulary().find(tokenizer.token(3)), 3);
    }
  });
}

TEST(Threads, ShareATokenizer) {
  const std::string text =
      "It was a cold evening, and (strangely) nobody came: “naïve” – 123 times; I'll see.\n";
  const std::vector<std::string> special{std::string(kEndOfText)};
  expect_the_same_in_threads(BytePairTokenizer::train(text + text, {.size = 290}), text);
  expect_the_same_in_threads(CharacterTokenizer::from_text(text, {.special_tokens = special}),
                             text);
  expect_the_same_in_threads(WordTokenizer::from_text(text), text);
}

}  // namespace
