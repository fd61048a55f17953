#pragma once

#include <cstddef>
#include <string>

namespace rowgrad {

/// Warns on standard error that a model reads only a part of a text: "warning: the text has 82
/// tokens; only the first 32 (the context) are read". `what` is "the text has 82 tokens"; `end` is
/// "first" or "last".
void warn_of_cut(const std::string& what, const char* end, std::size_t context);

}  // namespace rowgrad
