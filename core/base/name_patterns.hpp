#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rowgrad {

/// Shell patterns (POSIX fnmatch) that select names, such as "blocks.11.*,norm.*": * matches any
/// characters, including dots; ? matches one character; [0-4] matches one digit from 0 to 4.
class NamePatterns {
 public:
  /// Splits a comma-separated list of patterns.
  explicit NamePatterns(std::string_view patterns);

  /// Returns true if any pattern matches. Remembers the patterns that matched.
  bool match(const std::string& name);

  /// Throws std::invalid_argument if a pattern other than "*" has matched no name, probably because
  /// of a typo. The message starts with `caller`; `kind` is a noun such as "parameter".
  void check_all_matched(std::string_view caller, std::string_view kind) const;

 private:
  struct Pattern {
    std::string text;
    bool matched = false;
  };
  std::vector<Pattern> patterns_;
  std::vector<std::string> seen_;  // earliest names, for messages
};

}  // namespace rowgrad
