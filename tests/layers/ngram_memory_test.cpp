#include "tests/test.hpp"

namespace {

NgramMemoryOptions small() { return {.head_width = 3}; }

void expect_all(const Tensor& got, const json& expected, const std::string& what) {
  const Tensor values = reshaped(tensor_from(expected), got.shape());
  const double largest = xt::amax(xt::abs(values))();
  expect_near(got, values, (sizeof(real) == 8 ? 1e-10 : 2e-5) * largest, what);
}

TEST(NgramMemory, MatchesPyTorch) {
  const json item = golden("ngram_memory.json")["memory"];
  const Tensor values = tensor_from(item["ids"]);
  Ids text = Ids::from_shape({2, 8});
  std::ranges::transform(values, text.begin(),
                         [](real id) { return static_cast<std::int32_t>(id); });
  Random random(1);
  const NgramHash hash(
      item["vocabulary"],
      {.orders = item["orders"], .heads = item["heads"], .rows = 23, .seed = item["seed"]},
      {item["layer"]}, item["layer"]);
  NgramMemory memory(hash, 6, random, small());
  EXPECT_TRUE(std::ranges::equal(memory.hash().rows(text), tensor_from(item["rows"])));

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
  EXPECT_LE(xt::amax(xt::abs(memory.conv.value()))(), 0.5);  // 1/√4, as in PyTorch
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
  const Variable y = memory.forward(x, {.ids = text, .kept = nullptr});
  expect_all(y.value(), item["output"], "output");
  tape.backward(y, wave(y.shape(), 0.23, 0.4, 1));
  for (const auto& [name, parameter] : parameters)
    expect_all(Gradient(parameter->gradient()).take_dense(), item["gradients"][name], name);
  expect_all(tape.gradient(x).dense(), item["gradients"]["x"], "x");
  EXPECT_TRUE(memory.table.weight.gradient().is_rows());
}

TEST(NgramMemory, ZeroInitializedMemoryAddsNothing) {
  Random random(5);
  NgramMemory memory(NgramHash(20, {.rows = 11}, {0}, 0), 6, random,
                     {.head_width = 3, .zero_init = true});
  Tape tape(Tape::kInference);
  const Variable x = tape.constant(irregular({1, 5, 6}));
  const Ids text = ids({1, 5}, {1, 2, 3, 9, 9});
  EXPECT_EQ(memory.forward(x, {.ids = text, .kept = nullptr}).value(), x.value());
}

TEST(NgramMemory, ReturnsItsGates) {
  GptModel model({.vocabulary = 30,
                  .context = 8,
                  .width = 12,
                  .heads = 2,
                  .layers = 2,
                  .dropout = 0.5,
                  .memories = {.blocks = {1, 0},
                               .ngrams = {.orders = {1, 2}, .heads = 2, .rows = 5},
                               .memory = small()}},
                 Random(5));
  const Ids text = ids({2, 5}, {1, 2, 3, 4, 5, 9, 9, 9, 9, 9});
  const std::vector<Tensor> gates = model.memory_gates(text);
  EXPECT_TRUE(model.training());
  ASSERT_EQ(gates.size(), 2U);
  NgramMemory& first = model.memories[1];  // in front of block 0
  Tape tape(Tape::kInference);
  const Variable x = model.token.forward(tape, text, model.position->rows(tape, 5));
  const Variable rows = reshape(first.table.forward(tape, first.hash().rows(text)), x.shape());
  const Variable gate =
      memory_gate(first.key_norm.forward(first.key.forward(rows)), first.query_norm.forward(x));
  EXPECT_EQ(gates[0], reshape(gate, {2, 5}).value());
  const std::vector<Tensor> flat = model.memory_gates(to_ids(std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(flat[0].shape(), Shape({1, 5}));
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(flat[1].data()[i], gates[1].data()[i], 1000 * kEpsilon);
}

TEST(NgramHash, RejectsInvalidArguments) {
  struct Case {
    std::string message;
    NgramHashOptions options = {};
    std::size_t vocabulary = 9, block = 0;
  };
  for (const Case& item : std::vector<Case>{
           {"vocabulary is 0, expected 1 to 2147483647", {}, 0},
           {"there are 0 orders, 4 heads and 100000 rows, expected at least 1 of each",
            {.orders = {}}},
           {"there are 2 orders, 0 heads and 100000 rows, expected at least 1 of each",
            {.heads = 0}},
           {"there are 2 orders, 4 heads and 0 rows, expected at least 1 of each", {.rows = 0}},
           {"an order is 65, expected 1 to 64", {.orders = {2, 65}}},
           {"2 orders of 4 heads with at least 300000000 rows each exceed the maximum of "
            "2147483647 "
            "rows",
            {.rows = 300'000'000}},
           {"there are 1099511627776 heads of 100000 rows, expected at most 2147483647 of each",
            {.heads = std::size_t{1} << 40}},
           {"block is 1, expected one of the blocks with a memory", {}, 9, 1},
           {"there are 2 canonical ids, expected one for each of the 3 ids",
            {.canonical = {0, 1}},
            3},
           {"the canonical id of 1 is 3, expected 0 to 2", {.canonical = {0, 3, 0}}, 3}})
    EXPECT_INVALID("NgramHash: " + item.message,
                   NgramHash(item.vocabulary, item.options, {0, 2}, item.block));
  const NgramHash hash(9, {.rows = 11}, {0}, 0);
  for (const Ids& wrong : {Ids(), Ids::from_shape({}), Ids{1, 2}, Ids::from_shape({1, 1, 1})})
    EXPECT_INVALID(concat("NgramHash: tokens has shape ", bracketed(wrong.shape()),
                          ", expected [batch, positions] with at least 0 positions"),
                   hash.rows(wrong));
  EXPECT_INVALID("NgramHash: id 9 at index 1 is out of range: the vocabulary has 9 ids",
                 hash.rows(ids({1, 2}, {0, 9})));
  EXPECT_INVALID("NgramHash: id -1 at index 0 is out of range: the vocabulary has 9 ids",
                 hash.rows(ids({1, 2}, {-1, 9})));
  EXPECT_INVALID(
      "NgramHash: tokens has shape [1, 2], expected [batch, positions] with at least 3 positions",
      hash.rows(ids({1, 2}, {0, 1}), 3));
}

TEST(NgramMemory, RejectsInvalidArguments) {
  const NgramHash hash(9, {.rows = 11}, {0}, 0);
  Random random(1);
  EXPECT_INVALID("NgramMemory: kernel is 0, expected at least 1",
                 NgramMemory(hash, 6, random, {.kernel = 0}));
  const TemporaryFolder folder;
  TableFile other(folder / "other", {.rows = 12, .width = 3});
  EXPECT_INVALID(concat("NgramMemory: ", (folder / "other").string(),
                        " has shape [12, 3], expected [", hash.table_rows(), ", 3]"),
                 NgramMemory(hash, 6, random, small(), &other));
  NgramMemory memory(hash, 6, random, small());
  Tape tape;
  EXPECT_INVALID(
      "NgramMemory: x has shape [2, 2, 6] and context.ids [1, 2], expected [batch, length, width] "
      "and "
      "[batch, positions]",
      memory.forward(tape.input(zeros({2, 2, 6})), {.ids = ids({1, 2}, {0, 1}), .kept = nullptr}));
  const auto refusal = [&](GptMemories memories) {
    memories.ngrams.rows = 11;
    const GptOptions options{.vocabulary = 9,
                             .context = 2,
                             .width = 4,
                             .heads = 1,
                             .layers = 2,
                             .memories = std::move(memories)};
    return error_of<std::invalid_argument>([&] { GptModel(options, random); });
  };
  EXPECT_EQ(
      refusal({.blocks = {2}}),
      "GptModel: memories.blocks is [2], expected distinct numbers below 2, the number of blocks");
  EXPECT_EQ(refusal({.blocks = {1, 1}}),
            "GptModel: memories.blocks is [1, 1], expected distinct numbers below 2, the number of "
            "blocks");
  EXPECT_EQ(refusal({.blocks = {1}}),
            "GptModel: n-grams have up to 3 tokens, expected at most the context, 2");
  EXPECT_EQ(refusal({.blocks = {0, 1}, .files = {nullptr}}),
            "GptModel: memories.files has size 1, expected 0 or 2, the size of memories.blocks");
  EXPECT_EQ(refusal({.blocks = {0}, .files = {nullptr}}),
            "GptModel: memories.files[0] is null, expected a table file");
  for (const auto& shapes : {std::pair<Shape, Shape>{{1}, {2, 3}}, {{}, {}}, {{2, 0}, {2, 0}}})
    EXPECT_INVALID(concat("memory_gate: key and x have shapes ", bracketed(shapes.first), " and ",
                          bracketed(shapes.second),
                          ", expected equal shapes [..., width] with a width above 0"),
                   memory_gate(tape.input(zeros(shapes.first)), tape.input(zeros(shapes.second))));
}

}  // namespace
