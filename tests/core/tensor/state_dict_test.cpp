#include "tests/test.hpp"

namespace {

StateDict some_values() {
  StateDict state;
  state.put("weight", Tensor{{1, 2, 3}, {4, 5, 6}});
  state.put("rate", 0.1);
  state.put("rates", std::vector<double>{0.1, 0.2});
  state.put("step", std::uint64_t{7});
  state.put("steps", std::vector<std::int64_t>{1, -2});
  state.put("note", "a text");
  return state;
}

TEST(StateDict, ReturnsTheValuesThatWerePut) {
  const StateDict state = some_values();
  EXPECT_EQ(state.names(),
            (std::vector<std::string>{"note", "rate", "rates", "step", "steps", "weight"}));
  EXPECT_EQ(state.tensor("weight", {2, 3}), (Tensor{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(state.number("rate"), 0.1);
  EXPECT_EQ(state.doubles("rates"), (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(state.count("step"), 7U);
  EXPECT_EQ(state.integers("steps"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(state.string("note"), "a text");
  // Tensors and doubles convert to each other, and integers convert to doubles.
  EXPECT_EQ(state.tensor("rates", {2}), (Tensor{real(0.1), real(0.2)}));
  EXPECT_EQ(state.doubles("weight"), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(state.number("step"), 7);
  EXPECT_EQ(state.shape("weight"), Shape({2, 3}));
  EXPECT_EQ(state.shape("rates"), Shape({2}));
}

TEST(StateDict, NestsByPrefix) {
  StateDict inner;
  inner.put("model", some_values());
  StateDict run;
  run.put("first", inner);
  run.put("second", some_values());
  run.put("secondary", 1);
  EXPECT_EQ(run.string("first.model.note"), "a text");
  EXPECT_TRUE(bits_of(run.part("first").part("model")) == bits_of(some_values()));
  EXPECT_TRUE(bits_of(run.part("first.model")) == bits_of(some_values()));
  EXPECT_TRUE(bits_of(run.part("second")) == bits_of(some_values()));
  EXPECT_TRUE(run.part("third").empty());
  EXPECT_EQ(&std::get<Tensor>(run.part("second").at("weight")),
            &std::get<Tensor>(run.at("second.weight")))
      << "parts share their values with the whole";
}

TEST(StateDict, ErrorsGiveTheFullName) {
  StateDict run;
  run.put("run", some_values());
  const StateDict part = run.part("run");
  EXPECT_INVALID("StateDict: \"run.epoch\" is missing", part.count("epoch"));
  EXPECT_INVALID("StateDict: \"run.note\" is not an integer", part.integer("note"));
  EXPECT_INVALID("StateDict: \"run.steps\" has 2 elements, expected one", part.integer("steps"));
  EXPECT_INVALID("StateDict: \"run.rates\" has 2 elements, expected one", part.number("rates"));
  EXPECT_INVALID("StateDict: \"run.note\" is not an array of numbers", part.doubles("note"));
  EXPECT_INVALID("StateDict: \"run.note\" is not a tensor", part.shape("note"));
  EXPECT_INVALID("StateDict: \"run.step\" is not a string", part.string("step"));
  EXPECT_INVALID("StateDict: \"run.weight\" is not an array of integers", part.integers("weight"));
  EXPECT_INVALID("StateDict: \"run.weight\" has shape [2, 3], expected [3, 2]",
                 part.tensor("weight", {3, 2}));
  EXPECT_INVALID("StateDict: \"run.step\" is not a tensor", part.tensor("step", {}));
  StateDict negative;
  negative.put("step", -1);
  EXPECT_INVALID("StateDict: \"step\" is -1, expected a non-negative integer",
                 negative.count("step"));
  EXPECT_INVALID("StateDict: \"step\" already exists", negative.put("step", 1));
  StateDict large;
  large.put("most", 1LL << 53);
  large.put("seed", -(1LL << 53) - 1);
  EXPECT_EQ(large.number("most"), 0x1p53);
  EXPECT_INVALID("StateDict: \"seed\" is -9007199254740993, expected an integer from -2^53 to 2^53",
                 large.number("seed"));
}

StateDict renamed(const StateDict& file, const Renaming& rule) {
  return file.renamed(std::span(&rule, 1));
}

TEST(StateDict, RenamesAndTransposesByTheFirstMatchingRule) {
  StateDict file;
  file.put("h.0.weight", Tensor{{1, 2, 3}, {4, 5, 6}});
  file.put("h.11.weight", StateDict::Doubles{{2, 3}, {1, 2, 3, 4, 5, 6}});
  file.put("h.0.bias", zeros({1}));
  const std::vector<Renaming> rules{{"wte.*", "token.*"},
                                    {.from = "h.*.weight", .to = "blocks.*.qkv", .transpose = true},
                                    {"h.*.*", "blocks.*.*"}};
  const StateDict renamed = file.renamed(rules);
  EXPECT_EQ(renamed.names(),
            (std::vector<std::string>{"blocks.0.bias", "blocks.0.qkv", "blocks.11.qkv"}));
  EXPECT_EQ(renamed.tensor("blocks.0.qkv", {3, 2}), (Tensor{{1, 4}, {2, 5}, {3, 6}}));
  EXPECT_EQ(renamed.doubles("blocks.11.qkv"), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(renamed.shape("blocks.11.qkv"), Shape({3, 2}));
}

TEST(StateDict, AStarMatchesOneOrMoreCharacters) {
  const auto name_of = [](const std::string& name, const std::string& from, const std::string& to) {
    StateDict file;
    file.put(name, 1);
    return renamed(file, {from, to}).names().front();
  };
  EXPECT_EQ(name_of("transformer.h.0", "transformer.*", "*"), "h.0");
  EXPECT_EQ(name_of("a.b.c", "*.c", "x.*"), "x.a.b");
  EXPECT_EQ(name_of("a.b.b.c", "a.*.*", "*/*"), "b/b.c");
  EXPECT_EQ(name_of("abcabc", "*abc", "*!"), "abc!");
  EXPECT_EQ(name_of("a1b2", "a*b*", "fixed"), "fixed");
  EXPECT_EQ(name_of("xy", "x*y", "no"), "xy") << "a star matches at least one character";
  EXPECT_EQ(name_of("xyz", "x*y", "no"), "xyz");
  EXPECT_EQ(name_of("name", "nam", "no"), "name");
  EXPECT_EQ(name_of("name", "name", "yes"), "yes");
}

TEST(StateDict, RejectsInvalidRenamings) {
  StateDict file;
  file.put("a.1", zeros({2}));
  file.put("b.1", zeros({2, 3}));
  file.put("steps", 3);
  EXPECT_INVALID("StateDict::renamed: two values would be named \"c\"",
                 renamed(file, {"*.1", "c"}));
  EXPECT_INVALID("StateDict::renamed: \"*\" has more wildcards (*) than \"a.1\"",
                 renamed(file, {"a.1", "*"}));
  EXPECT_INVALID("StateDict::renamed: cannot transpose \"a.1\" of shape [2], expected a matrix",
                 renamed(file, {.from = "a.*", .to = "a.*", .transpose = true}));
  EXPECT_INVALID("StateDict::renamed: cannot transpose \"steps\", expected a tensor",
                 renamed(file, {.from = "steps", .to = "other", .transpose = true}));
}

TEST(StateDict, RejectsInvalidValuesAndStaysUnchanged) {
  StateDict state = some_values();
  const std::string before = bits_of(state);
  EXPECT_INVALID("StateDict: \"x\" has 1 values, expected 2 as in its shape",
                 state.put("x", StateDict::Doubles{{2}, {1}}));
  EXPECT_INVALID("StateDict: \"x\" is more than 2^63 - 1", state.put("x", std::uint64_t{1} << 63));
  StateDict part;
  part.put("a", 1);
  part.put("b", 2);
  state.put("p.b", 3);
  EXPECT_INVALID("StateDict: \"p.b\" already exists", state.put("p", part));
  state.erase("p.b");
  EXPECT_TRUE(bits_of(state) == before);
  state.put("self", state);
  EXPECT_TRUE(bits_of(state.part("self")) == before);
}

}  // namespace
