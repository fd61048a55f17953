// Runs the programs like a user: executes the commands in commands.txt, which explains the format.

#include <regex>

#include "tests/support/shell.hpp"
#include "tests/test.hpp"

namespace {

struct Block {
  std::string title;
  std::vector<std::string> lines;  // without comments; continuation lines are joined
};
void PrintTo(const Block& block, std::ostream* out) { *out << block.title; }

std::vector<Block> blocks() {
  std::ifstream file(ROWGRAD_TEST_DATA "/../examples/rowgrad/commands.txt");
  std::vector<Block> all(1);  // all[0] has the lines before the first title
  for (std::string line; std::getline(file, line);) {
    for (std::string more; line.ends_with('\\') && std::getline(file, more);) line += '\n' + more;
    if (line.starts_with("## ")) {
      all.push_back({line.substr(3), all[0].lines});
    } else if (!line.empty() && line[0] != '#') {
      all.back().lines.push_back(line);
    }
  }
  all.erase(all.begin());
  return all;
}

// Returns the first word of a line.
std::string mark_of(const std::string& line) { return line.substr(0, line.find(' ')); }

// Returns true if a line is an expectation. Throws if it looks like one but is malformed.
bool is_expectation(const std::string& line) {
  if (std::regex_match(mark_of(line), std::regex("[>=-]|[1-9][0-9]*!"))) return true;
  check_argument(!std::regex_search(line, std::regex("^([>=-]|[0-9]+!)")), "commands.txt: got ",
                 line, ", expected a space after the mark");
  return false;
}

void expect_outcome(const std::string& command, const std::vector<std::string>& expected,
                    const CommandFolder& folder) {
  const Outcome outcome = folder.shell(command);
  SCOPED_TRACE(concat(command, "\nstatus ", outcome.status, ":\n", outcome.output));
  const std::string first = mark_of(expected.at(0));
  const int status = first.ends_with('!') ? std::stoi(first) : 0;
  EXPECT_EQ(outcome.status, status);
  EXPECT_TRUE(outcome.status != 126 && outcome.status != 127)
      << "a program is missing or not executable";
  EXPECT_TRUE(status == 0 || expected[0].size() > first.size() + 1)
      << first << " has no expected message";
  const std::string output = '\n' + outcome.output + '\n';
  std::size_t end = 0;  // end of the previous match
  for (const std::string& line : expected) {
    std::string words = line.substr(std::min(line.size(), mark_of(line).size() + 1));
    if (const auto at = words.find("$PWD"); at != words.npos)
      words.replace(at, 4, folder.path().string());
    if (line[0] == '=') words = '\n' + words + '\n';
    const std::size_t found = output.find(words, line[0] == '-' ? 0 : end);
    EXPECT_EQ(found == output.npos, line[0] == '-') << line;
    if (found != output.npos && line[0] != '-') end = found + words.size() - (line[0] == '=');
  }
}

TEST(Shell, IsKilledIfACommandIsMissing) {
  for (const char* command : {"missing", "! missing", "missing | cat", "true && missing || true",
                              "(missing) || true", "echo $(missing)", "missing || true; true"})
    EXPECT_EQ(shell(command).status, 256 + SIGKILL) << command;
}

TEST(Shell, StopsAtTheFirstFailure) {
  for (const char* command : {"false | cat", "false; true"})
    EXPECT_EQ(shell(command).status, 1) << command;
}

TEST(CommandsFile, IsRejectedIfAMarkHasNoSpace) {
  for (const char* line : {">words", "=words", "-words", "1!words", "0! words"})
    EXPECT_INVALID(concat("commands.txt: got ", line, ", expected a space after the mark"),
                   is_expectation(line));
  for (const char* line : {"> words", "= words", "- words", "1! words", ">"})
    EXPECT_TRUE(is_expectation(line)) << line;
  for (const char* line : {"$ words", "name=words", "f() { g; }"})
    EXPECT_FALSE(is_expectation(line)) << line;
}

class Commands : public ::testing::TestWithParam<Block> {};

TEST_P(Commands, PrintWhatIsExpected) {
  const CommandFolder folder;
  std::string before;
  std::vector<std::string> commands, expected;
  const auto judge = [&] {
    for (const std::string& command : commands) expect_outcome(before + command, expected, folder);
    commands.clear();
    expected.clear();
  };
  for (const std::string& line : GetParam().lines) {
    if (is_expectation(line)) {
      expected.push_back(line);
    } else {
      if (!expected.empty()) judge();
      if (line.starts_with("$ ")) {
        commands.push_back(line.substr(2));
      } else {
        before += line + '\n';
      }
    }
  }
  judge();
}

// Turns "What it does" into What_it_does.
std::string name_of(const ::testing::TestParamInfo<Block>& info) {
  std::string name = info.param.title;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Programs, Commands, ::testing::ValuesIn(blocks()), name_of);

}  // namespace
