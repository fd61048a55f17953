#include <algorithm>

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

bool ProcessGroup::any(bool mine) {
  const unsigned char here = mine ? 1 : 0;
  const std::vector<unsigned char> all = all_gather(std::span(&here, 1));
  return std::ranges::find(all, 1) != all.end();
}

}  // namespace rowgrad
