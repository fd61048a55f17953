#include <algorithm>
#include <utility>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

std::vector<std::size_t> ProcessGroup::others() const {
  std::vector<std::size_t> ranks;
  for (std::size_t other = 0; other < size(); ++other)
    if (other != rank()) ranks.push_back(other);
  return ranks;
}

void ProcessGroup::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  start(0, sends, receives);
  finish(0);
}

void ProcessGroup::start(std::size_t channel, std::span<const Send> sends,
                         std::span<const Receive> receives) {
  for (const Send& send : sends) bytes_sent_ += send.bytes.size();
  begin(channel, sends, receives);
}

void ProcessGroup::gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::ranges::copy(mine, all.subspan(rank() * mine.size()).begin());
  for (const std::size_t other : others()) {
    sends.push_back({other, mine});
    receives.push_back({other, all.subspan(other * mine.size(), mine.size())});
  }
  exchange(sends, receives);
}

std::vector<std::string> ProcessGroup::exchange_texts(std::vector<std::string> sent) {
  std::vector<std::uint64_t> lengths, arriving(size());
  for (const std::string& text : sent) lengths.push_back(text.size());
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (const std::size_t other : others()) {
    sends.push_back({other, std::as_bytes(std::span(&lengths[other], 1))});
    receives.push_back({other, std::as_writable_bytes(std::span(&arriving[other], 1))});
  }
  exchange(sends, receives);
  sends.clear();
  receives.clear();
  std::vector<std::string> received(size());
  for (const std::size_t other : others()) {
    received[other].resize(arriving[other]);
    sends.push_back({other, std::as_bytes(std::span(sent[other]))});
    receives.push_back({other, std::as_writable_bytes(std::span(received[other]))});
  }
  exchange(sends, receives);
  received[rank()] = std::move(sent[rank()]);
  return received;
}

std::vector<std::string> ProcessGroup::gather_texts(std::string_view mine) {
  return exchange_texts(std::vector<std::string>(size(), std::string(mine)));
}

bool ProcessGroup::any(bool mine) {
  const unsigned char here = mine ? 1 : 0;
  const std::vector<unsigned char> all = gather(std::span(&here, 1));
  return std::ranges::find(all, 1) != all.end();
}

}  // namespace rowgrad
