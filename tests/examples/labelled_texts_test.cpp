#include <sys/stat.h>

#include "tests/test.hpp"
#include <rowgrad/examples/support/labelled_texts.hpp>

namespace {

std::vector<std::string> all_of(const LabelledTexts& texts) {
  std::vector<std::string> all;
  for (const auto& [text, label] : texts.texts) all.push_back(texts.labels[label] + ": " + text);
  return all;
}

// Reads a table of this name and contents.
LabelledTexts read(const std::string& name, const std::string& contents,
                   const LabelledTextOptions& options = {}) {
  const TemporaryFolder folder;
  write_file(folder / name, contents);
  return read_labelled_texts(folder / name, options);
}

TEST(LabelledTexts, AreReadFromTables) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(all_of(read("a.csv",
                        "n,label,text\r\n1,spam,\"win, \"\"now\"\"\nor never\"\r\n"
                        "2,ham,hello\n\n3,spam,")),
            (Texts{"spam: win, \"now\"\nor never", "ham: hello", "spam: "}));
  const LabelledTexts tabs = read("b.tsv", "kind\twhat\r\nspam\t\"buy\n\nham\tsay \"hi, you\r\n",
                                  {.text = "what", .label = "kind"});
  EXPECT_EQ(all_of(tabs), (Texts{"spam: \"buy", "ham: say \"hi, you"}));
  EXPECT_EQ(tabs.labels, (Texts{"ham", "spam"}));
  EXPECT_EQ(all_of(read("d.csv", "\xEF\xBB\xBFlabel,text\nspam,buy\n")),  // a byte order mark
            (Texts{"spam: buy"}));
  for (const auto& [name, contents, reason] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"b.tsv", "label\ttext\r\nspam\t\"buy\tnow\n", ":2: has 3 columns, expected 2"},
           {"c.txt", "label,text\nspam,buy\n", ": expected a .csv or .tsv table, or a folder"},
           {"c.csv", "", ": has no first row with the names of its columns"},
           {"c.csv", "label,text\n", ": has no texts"},
           {"c.csv", "class,text\na,b\n",
            R"(: has no column "label", its columns are ["class", "text"])"},
           {"c.csv", "label,text,text\na,b,c\n",
            R"(: has several columns "text", its columns are ["label", "text", "text"])"},
           {"c.csv", "label,text\n\"a\nb\",c\nd\n", ":4: has 1 columns, expected 2"},
           {"c.csv", "label,text\na,\"b\n", ":2: a quote is never closed"},
           {"c.csv", "label,text\n\"a\"b,c\n", ":2: there is text behind a closed quote"}}) {
    const std::string message =
        error_of<std::runtime_error>([&, &file = name, &text = contents] { read(file, text); });
    EXPECT_TRUE(message.ends_with(name + reason)) << message;
  }
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
