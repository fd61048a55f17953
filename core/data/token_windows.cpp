#include <cmath>

#include <rowgrad/core/data/token_windows.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

void check_rank(const char* caller, const Ids& ids) {
  check_argument(ids.dimension() == 1, caller, ": ids has shape ", bracketed(ids.shape()),
                 ", expected rank 1");
}

}  // namespace

TokenWindows::TokenWindows(Ids ids, const WindowOptions& options)
    : ids_(std::move(ids)), options_(options) {
  check_rank("TokenWindows", ids_);
  check_argument(options.context >= 1, "TokenWindows: context is ", options.context,
                 ", expected at least 1");
  check_argument(options.stride >= 1, "TokenWindows: stride is ", options.stride,
                 ", expected at least 1");
  const std::size_t tokens = ids_.size();
  check_argument(tokens > options.context, "TokenWindows: the text has ", tokens,
                 " tokens, but a window of context ", options.context, " needs ", options.context,
                 " + 1, the last one as a target");
  size_ = (tokens - options.context - 1) / options.stride + 1;
}

std::span<const std::int32_t> TokenWindows::from(std::size_t i, std::size_t shift) const {
  check_argument(i < size_, "TokenWindows: window ", i, " is outside the ", size_, " windows");
  return {ids_.data() + i * options_.stride + shift, options_.context};
}

Split split(const Ids& ids, double validation_fraction) {
  check_rank("split", ids);
  check_argument(validation_fraction >= 0 && validation_fraction < 1, "split: validation_fraction ",
                 validation_fraction, " is outside [0, 1)");
  const auto count = static_cast<double>(ids.size());
  const auto train = static_cast<std::size_t>(std::floor((1 - validation_fraction) * count));
  const std::span<const std::int32_t> all = ids.storage();
  return {to_ids(all.first(train)), to_ids(all.subspan(train))};
}

}  // namespace rowgrad
