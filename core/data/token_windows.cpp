#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/token_windows.hpp>

namespace rowgrad {

TokenWindows::TokenWindows(TokenSource text, const WindowOptions& options)
    : text_(std::move(text)), options_(options) {
  check_argument(options.context >= 1, "TokenWindows: context is ", options.context,
                 ", expected at least 1");
  check_argument(options.stride >= 1, "TokenWindows: stride is ", options.stride,
                 ", expected at least 1");
  const std::uint64_t tokens = text_.size();
  check_argument(tokens > options.context, "TokenWindows: the text has ", tokens,
                 " tokens, but a window of context ", options.context, " needs ", options.context,
                 " + 1, the last one as a target");
  size_ = (tokens - options.context - 1) / options.stride + 1;
}

std::uint64_t TokenWindows::begin(std::size_t i) const {
  check_argument(i < size_, "TokenWindows: window ", i, " is outside the ", size_, " windows");
  return std::uint64_t{i} * options_.stride;
}

void TokenWindows::read(std::size_t i, std::span<std::int32_t> ids) const {
  check_argument(ids.size() == options_.context + 1, "TokenWindows: there is room for ", ids.size(),
                 " ids, expected ", options_.context, " + 1");
  text_.read(begin(i), ids);
}

std::span<const std::int32_t> TokenWindows::from(std::size_t i, std::size_t shift) const {
  return text_.in_memory().subspan(begin(i) + shift, options_.context);
}

}  // namespace rowgrad
