#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/labelled_texts.hpp>

namespace {

std::vector<std::string> all_of(const LabelledTexts& texts) {
  std::vector<std::string> all;
  for (const auto& [text, label, source] : texts.texts)
    all.push_back(texts.labels[label] + ": " + text);
  return all;
}

// Reads a table with this file name and contents.
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
                        "2,ham,hello\n\n3,spam,no")),
            (Texts{"spam: win, \"now\"\nor never", "ham: hello", "spam: no"}));
  const LabelledTexts tabs = read("b.tsv", "kind\twhat\r\nspam\t\"buy\n\nham\tsay \"hi, you\r\n",
                                  {.text = "what", .label = "kind"});
  EXPECT_EQ(all_of(tabs), (Texts{"spam: \"buy", "ham: say \"hi, you"}));
  EXPECT_EQ(tabs.labels, (Texts{"ham", "spam"}));
  EXPECT_EQ(all_of(read("d.csv", "\xEF\xBB\xBFlabel,text\nspam,buy\n")),  // a byte order mark
            (Texts{"spam: buy"}));
}

TEST(LabelledTexts, RejectExamplesWithoutTextOrLabel) {
  for (const auto& wrong :
       std::map<std::string, std::string>{{"a,b\n,c\n", ":3: the column \"label\" is empty"},
                                          {"a,b\n\nc,\"\"\n", ":4: the column \"text\" is empty"},
                                          {",\n", ":2: the column \"text\" is empty"},
                                          {"a,\"  \"\n", ":2: the column \"text\" is empty"},
                                          {" ,b\n", ":2: the column \"label\" is empty"}})
    EXPECT_ERROR_WITH(std::runtime_error, "a.csv" + wrong.second,
                      read("a.csv", "label,text\n" + wrong.first));
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a");
  write_file(folder / "a/x", " \n");
  EXPECT_ERROR_WITH(std::runtime_error, "a/x: is empty", read_labelled_texts(folder.path()));
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
}

}  // namespace
