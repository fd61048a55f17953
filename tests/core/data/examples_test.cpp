#include "tests/test.hpp"

namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

Rows rows_of(const TokenWindows& windows, std::size_t array) {
  Rows rows;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(windows.size()); ++i)
    rows.push_back(values(windows.batch({&i, 1}).ids[array]));
  return rows;
}
Rows inputs_of(const TokenWindows& windows) { return rows_of(windows, 0); }
Rows targets_of(const TokenWindows& windows) { return rows_of(windows, 1); }

constexpr std::int32_t kNone = kIgnoredTarget;

TEST(Examples, HaveTheirClassAtTheEndOrTheirAnswerAsTargets) {
  const Example of_class = class_example(to_ids(std::vector{5, 6, 7}), 2);
  EXPECT_EQ(of_class.inputs, (std::vector{5, 6, 7}));
  EXPECT_EQ(of_class.targets, (std::vector{kNone, kNone, 2}));
  EXPECT_EQ(class_example(to_ids(std::vector{5, 6, 7}), 1, 2).targets, (std::vector{kNone, 1}));
  const Example answer = answer_example(to_ids(std::vector{1, 2}), to_ids(std::vector{3, 4}), 9);
  EXPECT_EQ(answer.inputs, (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(answer.targets, (std::vector{kNone, 3, 4, 9}));
  const Ids none = to_ids(std::vector<std::int32_t>());
  EXPECT_INVALID("class_example: the text has shape [0], expected a text of at least one id",
                 class_example(none, 0));
  EXPECT_INVALID("answer_example: the prompt has shape [0], expected a text of at least one id",
                 answer_example(none, none, 0));
  EXPECT_INVALID("class_example: at most 0 ids are to be kept, expected at least 1",
                 class_example(to_ids(std::vector{5}), 0, 0));
}

TEST(Examples, ArePaddedOrPackedIntoWindows) {
  const std::vector<Example> examples{
      {{1, 2, 3}, {kNone, kNone, 7}}, {{4}, {8}}, {{5, 6}, {kNone, 9}}, {{1, 2, 3}, {1, 1, 1}}};
  const TokenWindows padded = padded_windows(examples, {.padding = 50});
  EXPECT_EQ(inputs_of(padded), (Rows{{1, 2, 3}, {4, 50, 50}, {5, 6, 50}, {1, 2, 3}}));
  EXPECT_EQ(targets_of(padded),
            (Rows{{kNone, kNone, 7}, {8, kNone, kNone}, {kNone, 9, kNone}, {1, 1, 1}}));
  const TokenWindows packed = packed_windows(examples, {.context = 5});
  EXPECT_EQ(inputs_of(packed), (Rows{{1, 2, 3, 4, 0}, {5, 6, 1, 2, 3}}));
  EXPECT_EQ(targets_of(packed), (Rows{{kNone, kNone, 7, 8, kNone}, {kNone, 9, 1, 1, 1}}));

  // A loader shuffles them as windows of a text.
  DataLoader loader(packed, {.batch = 2});
  const Batch& batch = *loader.begin();
  EXPECT_EQ(batch.targets(), ids({2, 5}, {kNone, kNone, 7, 8, kNone, kNone, 9, 1, 1, 1}));
  EXPECT_EQ(batch.inputs(), ids({2, 5}, {1, 2, 3, 4, 0, 5, 6, 1, 2, 3}));

  EXPECT_INVALID("padded_windows: example 0 has 3 ids, more than the context of 2",
                 padded_windows(examples, {.context = 2}));
  EXPECT_THROW(padded_windows(examples, {.context = std::size_t{1} << 62}), std::invalid_argument);
  EXPECT_INVALID("class_example: the label is 2147483648, expected less than 2^31",
                 class_example(to_ids(std::vector{5}), std::size_t{1} << 31));
  EXPECT_INVALID("packed_windows: there are no examples", packed_windows({}));
  EXPECT_INVALID("packed_windows: example 0 has 1 ids and 0 targets, expected equally many",
                 packed_windows(std::vector<Example>{{{1}, {}}}));
  EXPECT_INVALID("TokenWindows: there are 1 targets for 2 tokens",
                 TokenWindows(ids({2}, {1, 2}), ids({1}, {1}), {.context = 1, .stride = 1}));
  EXPECT_INVALID("TokenWindows: the text has 2 tokens, but a window has a context of 3",
                 TokenWindows(ids({2}, {1, 2}), ids({2}, {1, 2}), {.context = 3, .stride = 1}));
}

std::vector<std::string> all_of(const LabelledTexts& texts) {
  std::vector<std::string> all;
  for (const auto& [text, label] : texts.texts) all.push_back(texts.labels[label] + ": " + text);
  return all;
}

TEST(LabelledTexts, AreReadFromTables) {
  const TemporaryFolder folder;
  write_file(folder / "a.csv",
             "n,label,text\r\n1,spam,\"win, \"\"now\"\"\nor never\"\r\n2,ham,hello\n\n3,spam,");
  EXPECT_EQ(all_of(read_labelled_texts(folder / "a.csv")),
            (std::vector<std::string>{"spam: win, \"now\"\nor never", "ham: hello", "spam: "}));
  write_file(folder / "b.tsv", "ham\tsay \"hi, you\nspam\tbuy\n");
  const LabelledTexts tabs = read_labelled_texts(folder / "b.tsv", {.columns = {"label", "text"}});
  EXPECT_EQ(all_of(tabs), (std::vector<std::string>{"ham: say \"hi, you", "spam: buy"}));
  EXPECT_EQ(tabs.labels, (std::vector<std::string>{"ham", "spam"}));

  // Of the same numbers as other texts, whichever labels are there.
  write_file(folder / "d.csv", "\xEF\xBB\xBFlabel,text\nspam,buy\n");
  const LabelledTexts few = read_labelled_texts(folder / "d.csv", {.labels = tabs.labels});
  EXPECT_EQ(few.texts[0].label, 1U);
  EXPECT_EQ(few.labels, tabs.labels);
  const std::string unknown = error_of<std::runtime_error>([&] {
    read_labelled_texts(folder / "d.csv", {.labels = {"ham", "eggs"}});
  });
  EXPECT_HAS(unknown, R"(has a text with the label "spam", expected one of ["ham", "eggs"])");
  EXPECT_INVALID("read_labelled_texts: labels has \"spam\" twice",
                 read_labelled_texts(folder / "d.csv", {.labels = {"spam", "spam"}}));

  const auto error = [&](const std::string& contents) {
    write_file(folder / "c.csv", contents);
    const std::string message =
        error_of<std::runtime_error>([&] { read_labelled_texts(folder / "c.csv"); });
    return message.substr(std::min(message.find("c.csv") + 5, message.size()));
  };
  EXPECT_EQ(error(""), ": has no first row with the names of its columns");
  EXPECT_EQ(error("label,text\n"), ": has no texts");
  EXPECT_EQ(error("class,text\na,b\n"),
            R"(: has no column "label", its columns are ["class", "text"])");
  EXPECT_EQ(error("label,text,text\na,b,c\n"),
            R"(: has several columns "text", its columns are ["label", "text", "text"])");
  EXPECT_EQ(error("label,text\n\"a\nb\",c\nd\n"), ":4: has 1 columns, expected 2");
  EXPECT_EQ(error("label,text\na,\"b\n"), ":2: a quote is never closed");
  EXPECT_EQ(error("label,text\n\"a\"b,c\n"), ":2: there is text behind a closed quote");
}

TEST(LabelledTexts, AreReadFromFolders) {
  const TemporaryFolder folder;
  for (const std::string name : {"b/2", "b/1", "a/x"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    write_file(folder / name, "text of " + name);
  }
  write_file(folder / "notes", "of nobody");
  const LabelledTexts texts = read_labelled_texts(folder.path());
  EXPECT_EQ(all_of(texts),
            (std::vector<std::string>{"a: text of a/x", "b: text of b/1", "b: text of b/2"}));
  EXPECT_HAS(error_of<std::runtime_error>([&] { read_labelled_texts(folder / "missing"); }),
             "missing: No such file or directory");

  write_file(folder / "b/3", "m\xFF");
  EXPECT_HAS(error_of<std::invalid_argument>([&] { read_labelled_texts(folder.path()); }),
             "b/3: the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8");
  std::filesystem::remove(folder / "b/3");
  ASSERT_EQ(::mkfifo((folder / "b/4").c_str(), 0600), 0);
  const auto error = [&] {
    return error_of<std::runtime_error>([&] { read_labelled_texts(folder.path()); });
  };
  EXPECT_HAS(error(), "b/4: is no regular file");
  std::filesystem::remove(folder / "b/4");
  std::filesystem::create_symlink("/dev/zero", folder / "b/4");
  EXPECT_HAS(error(), "b/4: is no regular file");
}

}  // namespace
