#include <algorithm>
#include <cmath>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/token_sequence.hpp>

namespace rowgrad {

TokenSequence::TokenSequence(Ids ids) : ids_(std::make_shared<const Ids>(std::move(ids))) {
  check_argument(ids_->dimension() == 1, "TokenSequence: ids has shape ", bracketed(ids_->shape()),
                 ", expected rank 1");
  size_ = ids_->size();
}

TokenSequence::TokenSequence(std::vector<TokenFile> files)
    : files_(std::make_shared<const std::vector<TokenFile>>(std::move(files))) {
  check_argument(!files_->empty(), "TokenSequence: there are no files, expected at least one");
  const auto& first = files_->front();
  for (const TokenFile& file : *files_) {
    check_runtime(!file.header() || !first.header() ||
                      file.header()->vocabulary_hash == first.header()->vocabulary_hash,
                  file.path().string(), ": has a different vocabulary than ",
                  first.path().string());
    ends_.push_back(size_ += file.size());
  }
}

void TokenSequence::check_range(const char* caller, std::uint64_t begin,
                                std::uint64_t count) const {
  check_argument(begin <= size_ && count <= size_ - begin, caller, ": ids [", begin, ", ",
                 begin + count, ") are out of range: there are ", size_, " ids");
}

void TokenSequence::read(std::uint64_t begin, std::span<std::int32_t> ids) const {
  check_range("TokenSequence::read", begin, ids.size());
  begin += begin_;
  if (ids_ != nullptr) {
    std::copy_n(ids_->data() + begin, ids.size(), ids.begin());
    return;
  }
  auto file =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  for (; !ids.empty(); ++file) {
    const std::uint64_t left = ends_[file] - begin;
    const auto here =
        ids.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, ids.size())));
    (*files_)[file].read((*files_)[file].size() - left, here);
    begin += here.size();
    ids = ids.subspan(here.size());
  }
}

TokenSequence TokenSequence::slice(std::uint64_t begin, std::uint64_t count) const {
  check_range("TokenSequence::slice", begin, count);
  TokenSequence result = *this;
  result.begin_ += begin;
  result.size_ = count;
  return result;
}

Ids TokenSequence::ids() const {
  Ids all = Ids::from_shape({static_cast<std::size_t>(size_)});
  read(0, all.storage());
  return all;
}

std::uint64_t TokenSequence::checksum() const {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 20, kParts = 256, kIds = 64;
  Checksum sum;
  sum.add(size_);
  const auto add = [&](std::uint64_t begin, std::uint64_t count) {
    const Ids ids = slice(begin, count).ids();
    sum.add_bytes(std::as_bytes(std::span(ids.data(), ids.size())));
  };
  if (size_ <= kMax) {
    add(0, size_);
  } else {
    for (std::uint64_t i = 0; i < kParts; ++i) add((size_ - kIds) * i / (kParts - 1), kIds);
  }
  return sum.value();
}

void TokenSequence::check_unchanged() const {
  if (files_ != nullptr)
    for (const TokenFile& file : *files_) file.check_unchanged();
}

Split split(const TokenSequence& source, double validation_fraction) {
  check_argument(validation_fraction >= 0 && validation_fraction < 1,
                 "split: validation_fraction is ", validation_fraction,
                 ", expected at least 0 and less than 1");
  const auto count = static_cast<double>(source.size());
  const auto train = static_cast<std::uint64_t>(std::floor((1 - validation_fraction) * count));
  return {source.slice(0, train), source.slice(train, source.size() - train)};
}

std::vector<std::uint64_t> id_counts(const TokenSequence& text, std::size_t vocabulary,
                                     std::uint64_t most) {
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 16;
  const std::uint64_t end = std::min(text.size(), most);
  std::vector<std::uint64_t> counts(vocabulary);
  std::vector<std::int32_t> ids;
  for (std::uint64_t begin = 0; begin < end; begin += ids.size()) {
    ids.resize(std::min(end - begin, kChunk));
    text.read(begin, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      check_argument(std::cmp_greater_equal(ids[i], 0) && std::cmp_less(ids[i], vocabulary),
                     "id_counts: id ", ids[i], " at index ", begin + i,
                     " is out of range: the vocabulary has ", vocabulary, " tokens");
      ++counts[static_cast<std::size_t>(ids[i])];
    }
  }
  return counts;
}

double unigram_loss(const TokenSequence& counted, const TokenSequence& text,
                    std::size_t vocabulary) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 24;
  check_argument(text.size() > 0, "unigram_loss: text is empty, expected at least one id");
  const std::vector<std::uint64_t> counts = id_counts(counted, vocabulary, kMax),
                                   targets = id_counts(text, vocabulary, kMax);
  const auto total = static_cast<double>(std::min(counted.size(), kMax) + vocabulary);
  double loss = 0;
  for (std::size_t id = 0; id < vocabulary; ++id)
    loss -=
        static_cast<double>(targets[id]) * std::log((static_cast<double>(counts[id]) + 1) / total);
  return loss / static_cast<double>(std::min(text.size(), kMax));
}

namespace {

const WindowOptions& checked(const WindowOptions& options) {
  const auto context = static_cast<std::ptrdiff_t>(options.context);  // shows -1 as negative
  const auto stride = static_cast<std::ptrdiff_t>(options.stride);
  check_argument(context >= 1, "TokenWindows: context is ", context, ", expected at least 1");
  check_argument(stride >= 1, "TokenWindows: stride is ", stride, ", expected at least 1");
  return options;
}

}  // namespace

TokenWindows::TokenWindows(TokenSequence text, const WindowOptions& options)
    : text_(std::move(text)),
      targets_(text_.size() > 0 ? text_.slice(1, text_.size() - 1) : text_),  // the next ids
      has_own_targets_(false),
      options_(checked(options)) {
  const std::uint64_t tokens = text_.size();
  check_argument(tokens > options.context, "TokenWindows: there are ", tokens,
                 " tokens, expected at least ", options.context, " + 1, a window of context ",
                 options.context, " and its last target");
  size_ = (tokens - options.context - 1) / options.stride + 1;
}

TokenWindows::TokenWindows(TokenSequence text, TokenSequence targets, const WindowOptions& options)
    : text_(std::move(text)),
      targets_(std::move(targets)),
      has_own_targets_(true),
      options_(checked(options)) {
  check_argument(targets_.size() == text_.size(), "TokenWindows: there are ", targets_.size(),
                 " targets for ", text_.size(), " tokens, expected one per token");
  check_argument(text_.size() >= options.context, "TokenWindows: there are ", text_.size(),
                 " tokens, expected at least ", options.context, ", one window");
  size_ = (text_.size() - options.context) / options.stride + 1;
}

Batch TokenWindows::batch(std::span<const std::int64_t> windows) const {
  const std::size_t context = options_.context;
  element_count({windows.size(), context}, "TokenWindows");
  const auto read = [&](const TokenSequence& from) {
    Ids rows = Ids::from_shape({windows.size(), context});
    for (std::size_t row = 0; row < windows.size(); ++row) {
      const auto i = static_cast<std::uint64_t>(windows[row]);
      check_argument(i < size_, "TokenWindows: window ", windows[row],
                     " is out of range: there are ", size_, " windows");
      from.read(i * options_.stride, std::span(rows.data() + row * context, context));
    }
    return rows;
  };
  return {.ids = {read(text_), read(targets_)}};
}

StateDict TokenWindows::description() const {
  Checksum sum;
  sum.add(text_.checksum());
  if (has_own_targets_) sum.add(targets_.checksum());
  StateDict description;
  description.put("windows", size_);
  description.put("context", options_.context);
  description.put("stride", options_.stride);
  description.put("ids_checksum", static_cast<std::int64_t>(sum.value()));
  return description;
}

void TokenWindows::check_unchanged() const {
  text_.check_unchanged();
  targets_.check_unchanged();
}

}  // namespace rowgrad
