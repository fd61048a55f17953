#include "tests/test.hpp"

namespace {

Ids batch_of(const json& texts) {
  Ids ids = Ids::from_shape({texts.size(), texts[0].size()});
  std::int32_t* next = ids.data();
  for (const json& text : texts)
    for (const json& id : text) *next++ = id;
  return ids;
}

NgramMemoryOptions small() { return {.head_width = 3}; }

NgramHash hash_of(const json& item) {
  return {item["vocabulary"],
          {.orders = item["orders"], .heads = item["heads"], .rows = 23, .seed = item["seed"]},
          {item["layer"]},
          item["layer"]};
}

// Those of the hash, which no n-gram tells.
std::uint64_t multiplier(std::size_t vocabulary, std::uint64_t seed, std::size_t block,
                         std::size_t k) {
  const std::uint64_t range = ((std::uint64_t{1} << 63) - 1) / (vocabulary + 1) / 2;
  return splitmix64(splitmix64(seed + 10007 * block) + k) % range * 2 + 1;
}

void expect_all(const Tensor& got, const json& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  const double relative = sizeof(real) == 8 ? 1e-10 : 2e-5;
  double largest = 0;
  for (const double number : expected) largest = std::max(largest, std::abs(number));
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got.data()[i], expected[i].get<double>(), relative * largest) << what << ' ' << i;
}

TEST(NgramMemory, HasTheNumbersOfPyTorch) {
  const json item = golden("ngram_memory.json")["memory"];
  const Ids ids = batch_of(item["ids"]);
  Random random(1);
  NgramMemory memory(hash_of(item), 6, random, small());
  EXPECT_EQ(json(memory.hash().sizes()), item["sizes"]);
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_EQ(std::to_string(multiplier(item["vocabulary"], item["seed"], item["layer"], k)),
              item["multipliers"][k].get<std::string>());
  const Ids rows = memory.hash().rows(ids);
  json listed;
  for (std::size_t text = 0; text < 2; ++text)
    for (std::size_t t = 0; t < 8; ++t)
      listed[text][t] =
          std::vector(rows.data() + (text * 8 + t) * 4, rows.data() + (text * 8 + t + 1) * 4);
  EXPECT_EQ(listed, item["rows"]);

  const std::vector<std::pair<std::string, Parameter*>> parameters{
      {"table", &memory.table.weight},
      {"key.weight", &memory.key.weight},
      {"key.bias", &*memory.key.bias},
      {"value.weight", &memory.value.weight},
      {"value.bias", &*memory.value.bias},
      {"key_norm", &memory.key_norm.weight},
      {"query_norm", &memory.query_norm.weight},
      {"conv_norm", &memory.conv_norm.weight},
      {"conv", &memory.conv}};
  const auto start = [](const Shape& shape, std::size_t i) {
    return wave(shape, 0.37 + 0.05 * static_cast<double>(i), 0.5 * static_cast<double>(i), 0.6);
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor value = start(parameters[i].second->shape(), i);
    if (parameters[i].first.ends_with("norm")) value += real{1};
    parameters[i].second->assign(value);
  }
  Tape tape;
  const Variable x = tape.input(start({2, 8, 6}, parameters.size()));
  const Variable y = memory.forward(x, {.ids = ids, .kept = nullptr});
  expect_all(y.value(), item["output"], "output");
  tape.backward(y, wave(y.shape(), 0.23, 0.4, 1));
  for (const auto& [name, parameter] : parameters)
    expect_all(Gradient(parameter->gradient()).take_dense(), item["gradients"][name], name);
  expect_all(tape.gradient(x).dense(), item["gradients"]["x"], "x");
  EXPECT_TRUE(memory.table.weight.gradient().is_rows());
}

TEST(NgramMemory, ReadsATextPieceByPieceAsWhole) {
  for (const std::size_t kernel : {1U, 2U, 4U}) {
    Random random(3);
    const NgramHash hash(20, {.orders = {1, 3}, .heads = 2, .rows = 11}, {0}, 0);
    NgramMemory memory(hash, 6, random, {.head_width = 3, .kernel = kernel});
    const Tensor x = irregular({1, 15, 6});
    Ids ids = Ids::from_shape({1, 15});
    for (std::size_t i = 0; i < 15; ++i) ids[i] = static_cast<std::int32_t>(i * i % 7);
    Tape tape(Tape::inference);
    const Tensor whole = memory.forward(tape.constant(x), {.ids = ids, .kept = nullptr}).value();
    Tensor kept = empty({0});
    for (std::size_t begin = 0, end; begin < 15; begin = end) {
      end = begin + (begin == 2 ? 11 : begin == 0 ? 2 : 1);
      Ids so_far = Ids::from_shape({1, end});
      std::copy_n(ids.data(), end, so_far.data());
      Tensor piece = empty({1, end - begin, 6});
      std::copy_n(x.data() + begin * 6, piece.size(), piece.data());
      const Tensor y = memory.forward(tape.constant(piece), {.ids = so_far, .kept = &kept}).value();
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_NEAR(y.data()[i], whole.data()[begin * 6 + i], 20 * kEpsilon);
    }
    EXPECT_EQ(kept.shape()[1], (kernel - 1) * 3);
  }
}

TEST(NgramMemory, AddsNothingWhereItStartsSilent) {
  const auto model = [](std::vector<std::size_t> blocks) {
    return GptModel({.vocabulary = 30,
                     .context = 8,
                     .width = 12,
                     .heads = 2,
                     .layers = 2,
                     .memories = {.blocks = std::move(blocks),
                                  .ngrams = {.heads = 2, .rows = 50},
                                  .memory = {.head_width = 3, .starts_silent = true}}},
                    Random(5));
  };
  const Ids ids = batch_of(json{{1, 2, 3, 4, 5}, {9, 9, 9, 9, 9}});
  Tape tape(Tape::inference);
  EXPECT_EQ(model({0, 1}).forward(tape, ids).value(), model({}).forward(tape, ids).value());
}

TEST(NgramMemory, ItsTableMayBeInAFile) {
  const TemporaryFolder folder;
  const NgramHash hash(20, {.heads = 2, .rows = 11}, {0}, 0);
  TableFile file(folder / "table", {.rows = hash.table_rows(), .width = 3, .seed = 1});
  TableFile other(folder / "other", {.rows = 12, .width = 3, .seed = 1});
  Random random(3);
  EXPECT_INVALID(
      concat("NgramMemory: ", (folder / "other").string(), " has shape [12, 3], expected [60, 3]"),
      NgramMemory(hash, 6, random, small(), &other));
  NgramMemory in_file(hash, 6, random, small(), &file);
  NgramMemory in_memory(hash, 6, random, small());
  const Ids ids = batch_of(json{{1, 2, 3, 4, 5}});
  std::vector<std::int32_t> all(hash.table_rows());
  std::iota(all.begin(), all.end(), 0);
  in_memory.table.weight.assign(in_file.table.weight.rows(all));
  for (std::size_t i = 0; i < in_file.parameters().size(); ++i)
    if (Parameter& one = *in_file.parameters()[i]; &one != &in_file.table.weight)
      in_memory.parameters()[i]->assign(one.value());
  const Tensor x = irregular({1, 5, 6});
  const auto output = [&](NgramMemory& memory) {
    Tape tape(Tape::inference);
    return memory.forward(tape.constant(x), {.ids = ids, .kept = nullptr}).value();
  };
  EXPECT_EQ(output(in_file), output(in_memory));
}

TEST(NgramMemory, RefusesWhatDoesNotFit) {
  Random random(1);
  const auto hash = [](std::size_t vocabulary, const NgramHashOptions& options,
                       std::size_t block = 0) {
    return NgramHash(vocabulary, options, {0, 2}, block);
  };
  EXPECT_INVALID("NgramHash: vocabulary is 0, expected 1 to 2147483647", hash(0, {}));
  EXPECT_INVALID("NgramHash: 0 orders, heads 4 and rows 100000 must be above 0",
                 hash(9, {.orders = {}}));
  EXPECT_INVALID("NgramHash: 2 orders, heads 0 and rows 100000 must be above 0",
                 hash(9, {.heads = 0}));
  EXPECT_INVALID("NgramHash: 2 orders, heads 4 and rows 0 must be above 0", hash(9, {.rows = 0}));
  EXPECT_INVALID("NgramHash: an order is 65, expected 1 to 64", hash(9, {.orders = {2, 65}}));
  EXPECT_INVALID(
      "NgramHash: 2 orders of 4 heads with 300000000 rows or more each are more rows than ids, "
      "2147483647",
      hash(9, {.rows = 300'000'000}));
  EXPECT_INVALID("NgramHash: heads 1099511627776 of 100000 rows are more rows than ids, 2147483647",
                 hash(9, {.heads = std::size_t{1} << 40}));
  EXPECT_INVALID("NgramHash: block 1 is none of those that have one", hash(9, {}, 1));
  EXPECT_INVALID("NgramHash: there are 2 canonical ids, expected one for each of the 3 ids",
                 hash(3, {.canonical = {0, 1}}));
  EXPECT_INVALID("NgramHash: the canonical id of 1 is 3, expected 0 to 2",
                 hash(3, {.canonical = {0, 3, 0}}));
  const NgramHash small_hash = hash(9, {.rows = 11});
  EXPECT_INVALID("NgramHash: id 9 at 1 is outside the vocabulary of 9",
                 small_hash.rows(batch_of(json{{0, 9}})));
  EXPECT_INVALID("NgramHash: id -1 at 0 is outside the vocabulary of 9",
                 small_hash.rows(batch_of(json{{-1, 9}})));
  EXPECT_INVALID(
      "NgramHash: texts have shape [1, 2], expected [batch, positions] with at least 3 positions",
      small_hash.rows(batch_of(json{{0, 1}}), 3));
  EXPECT_INVALID("NgramMemory: the kernel is 0", NgramMemory(small_hash, 6, random, {.kernel = 0}));
  NgramMemory memory(small_hash, 6, random, small());
  Tape tape;
  const Ids ids = batch_of(json{{0, 1}});
  EXPECT_INVALID(
      "NgramMemory: x has shape [2, 2, 6] for texts of shape [1, 2], expected [batch, length, "
      "width]",
      memory.forward(tape.input(zeros({2, 2, 6})), {.ids = ids, .kept = nullptr}));
  const auto gpt = [&](GptMemories memories) {
    memories.ngrams.rows = 11;
    return GptModel({.vocabulary = 9,
                     .context = 2,
                     .width = 4,
                     .heads = 1,
                     .layers = 2,
                     .memories = std::move(memories)},
                    random);
  };
  EXPECT_INVALID(
      "GptModel: memories are in front of blocks [2], expected some of the 2, counted "
      "from 0, each once",
      gpt({.blocks = {2}}));
  EXPECT_INVALID(
      "GptModel: memories are in front of blocks [1, 1], expected some of the 2, counted from 0, "
      "each once",
      gpt({.blocks = {1, 1}}));
  EXPECT_INVALID("GptModel: n-grams of 3 tokens do not fit a context of 2", gpt({.blocks = {1}}));
  EXPECT_INVALID("GptModel: there are 1 files for the tables of 2 memories",
                 gpt({.blocks = {0, 1}, .files = {nullptr}}));
  EXPECT_INVALID("GptModel: file 0 of the memories' tables is null",
                 gpt({.blocks = {0}, .files = {nullptr}}));
}

// x mod size for the largest numbers there are, against whole numbers.
TEST(NgramHash, DividesExactly) {
  for (const std::size_t rows : {1UL, 2UL, 97UL, 2'097'143UL, 2'097'169UL, 1'000'000'000UL}) {
    const std::size_t vocabulary = rows % 2 == 0 ? 3 : 2'000'000'000;
    const NgramHash hash(vocabulary, {.orders = {1, 4}, .heads = 1, .rows = rows, .seed = rows},
                         {0}, 0);
    Ids ids = Ids::from_shape({2, 101});
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(splitmix64(i) % vocabulary);
    const Ids found = hash.rows(ids, 100);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t lookup = i % 2, t = i / 2 % 100 + 1, text = i / 200;
      std::uint64_t mixed = 0;
      for (std::size_t k = 0; k < (lookup == 0 ? 1 : 4); ++k)
        mixed ^= (k > t ? vocabulary : static_cast<std::uint64_t>(ids[text * 101 + t - k])) *
                 multiplier(vocabulary, rows, 0, k);
      const std::size_t first = lookup == 0 ? 0 : hash.sizes()[0];
      ASSERT_EQ(static_cast<std::size_t>(found[i]), first + mixed % hash.sizes()[lookup])
          << rows << ' ' << i;
    }
  }
}

// x / sqrt(mean of squares + 1e-5), of which all weights are 1.
std::vector<double> normed(std::vector<double> x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  return x;
}

TEST(NgramMemory, ItsGatesAreThoseOfTheFormula) {
  const GptMemories memories{.blocks = {1, 0},
                             .ngrams = {.orders = {1, 2}, .heads = 2, .rows = 5},
                             .memory = {.head_width = 3}};
  GptModel model({.vocabulary = 30,
                  .context = 8,
                  .width = 12,
                  .heads = 2,
                  .layers = 2,
                  .dropout = 0.5,
                  .memories = memories},
                 Random(5));
  const Ids text = batch_of(json{{1, 2, 3, 4, 5}, {9, 9, 9, 9, 9}});
  const std::vector<Tensor> gates = model.memory_gates(text);
  EXPECT_TRUE(model.training());
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_EQ(gates[1].shape(), Shape({2, 5}));
  NgramMemory& first = model.memories[1];  // in front of block 0
  const Ids rows = first.hash().rows(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::vector<double> x(12), key(12);
    for (std::size_t c = 0; c < x.size(); ++c) {
      x[c] = model.token.weight.value()(static_cast<std::size_t>(text[i]), c) +
             model.position->weight.value()(i % 5, c);
      key[c] = first.key.bias->value()(c);
      for (std::size_t e = 0; e < 12; ++e)
        key[c] += first.key.weight.value()(c, e) *
                  first.table.weight.value()(static_cast<std::size_t>(rows[i * 4 + e / 3]), e % 3);
    }
    const std::vector<double> k = normed(key), q = normed(x);
    const double s = std::inner_product(k.begin(), k.end(), q.begin(), 0.0) / std::sqrt(12.0);
    const double g = 1 / (1 + std::exp(std::copysign(std::sqrt(std::max(std::abs(s), 1e-6)), -s)));
    EXPECT_NEAR(gates[0].data()[i], g, 1000 * kEpsilon) << i;
  }
  const std::vector<Tensor> flat = model.memory_gates(to_ids(std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(flat[0].shape(), Shape({1, 5}));
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(flat[1].data()[i], gates[1].data()[i], 1000 * kEpsilon);
  GptModel without({.vocabulary = 30, .context = 8, .width = 12, .heads = 2, .layers = 1},
                   Random(5));
  EXPECT_TRUE(without.memory_gates(text).empty());
}

TEST(MemoryGate, RefusesShapesThatDiffer) {
  Tape tape;
  const auto gate = [&](const Shape& key, const Shape& x) {
    memory_gate(tape.input(zeros(key)), tape.input(zeros(x)));
  };
  const std::string end = ", expected both [..., width], with a width above 0";
  EXPECT_INVALID("memory_gate: key and x have shapes [1] and [2, 3]" + end, gate({1}, {2, 3}));
  EXPECT_INVALID("memory_gate: key and x have shapes [] and []" + end, gate({}, {}));
  EXPECT_INVALID("memory_gate: key and x have shapes [2, 0] and [2, 0]" + end,
                 gate({2, 0}, {2, 0}));
}

}  // namespace
