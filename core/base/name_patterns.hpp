#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rowgrad {

/// Chooses names by patterns with commas between them, "blocks.11.*,norm.*": in each, * stands for
/// any characters, dots too, ? for one, and [0-4] for one of these, as in a shell (POSIX fnmatch).
class NamePatterns {
 public:
  /// Of patterns with commas between them.
  explicit NamePatterns(std::string_view patterns);

  /// Whether one of the patterns matches. Remembers which have matched.
  bool match(const std::string& name);

  /// Throws std::invalid_argument, in the name of `caller`, if a pattern has matched none of the
  /// `kind` that were asked for, as one with a typing error does. (For "*", there may be none.)
  void check_all_matched(std::string_view caller, std::string_view kind) const;

 private:
  struct Pattern {
    std::string text;
    bool matched = false;
  };
  std::vector<Pattern> patterns_;
  std::vector<std::string> seen_;  // the first names
};

}  // namespace rowgrad
