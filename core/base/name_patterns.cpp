#include <algorithm>
#include <fnmatch.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/name_patterns.hpp>
#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

NamePatterns::NamePatterns(std::string_view patterns) {
  for (std::size_t begin = 0; begin <= patterns.size();) {
    const std::size_t end = std::min(patterns.find(',', begin), patterns.size());
    patterns_.push_back({std::string(patterns.substr(begin, end - begin))});
    begin = end + 1;
  }
}

bool NamePatterns::match(const std::string& name) {
  bool matches = false;
  for (Pattern& pattern : patterns_) {
    const bool here = pattern.text == "*" || fnmatch(pattern.text.c_str(), name.c_str(), 0) == 0;
    pattern.matched |= here;
    matches |= here;
  }
  if (seen_.size() < 4) seen_.push_back(name);
  return matches;
}

void NamePatterns::check_all_matched(std::string_view caller, std::string_view kind) const {
  const std::vector<InQuotes> seen(seen_.begin(), seen_.end());
  for (const Pattern& pattern : patterns_)
    check_argument(pattern.matched || pattern.text == "*", caller, ": no ", kind, " matches ",
                   InQuotes(pattern.text), "; the first names are ", bracketed(seen));
}

}  // namespace rowgrad
