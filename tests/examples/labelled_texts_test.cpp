#include <sys/stat.h>

#include "tests/test.hpp"
#include <rowgrad/examples/support/labelled_texts.hpp>

namespace {

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
  write_file(folder / "b.tsv", "kind\twhat\r\nspam\t\"buy\tnow\n\nham\tsay \"hi, you\r\n");
  EXPECT_ERROR_WITH(std::runtime_error, "b.tsv:2: has 3 columns, expected 2",
                    read_labelled_texts(folder / "b.tsv", {.text = "what", .label = "kind"}));
  write_file(folder / "b.tsv", "kind\twhat\r\nspam\t\"buy\n\nham\tsay \"hi, you\r\n");
  const LabelledTexts tabs =
      read_labelled_texts(folder / "b.tsv", {.text = "what", .label = "kind"});
  EXPECT_EQ(all_of(tabs), (std::vector<std::string>{"spam: \"buy", "ham: say \"hi, you"}));
  EXPECT_EQ(tabs.labels, (std::vector<std::string>{"ham", "spam"}));

  write_file(folder / "c.txt", "label,text\nspam,buy\n");
  EXPECT_ERROR_WITH(std::runtime_error, "c.txt: expected a .csv or .tsv table, or a folder",
                    read_labelled_texts(folder / "c.txt"));

  write_file(folder / "d.csv", "\xEF\xBB\xBFlabel,text\nspam,buy\n");  // a byte order mark
  EXPECT_EQ(all_of(read_labelled_texts(folder / "d.csv")), (std::vector<std::string>{"spam: buy"}));

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
