#pragma once

// A process group whose ranks are threads of one process.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad::testing {

class ThreadGroup : public ProcessGroup {
 public:
  /// Messages that were sent and not yet received.
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::array<std::size_t, 3>, std::deque<std::vector<std::byte>>>
        messages;  // by {from, to, channel}
    bool closed = false;
  };

  ThreadGroup(Mailbox& mailbox, std::size_t rank, std::size_t size)
      : mailbox_(mailbox), rank_(rank), size_(size) {}
  std::size_t size() const override { return size_; }
  std::size_t rank() const override { return rank_; }
  bool done(std::size_t channel) override {
    const std::lock_guard lock(mailbox_.mutex);
    return take(channel);
  }
  void finish(std::size_t channel) override {
    std::unique_lock lock(mailbox_.mutex);
    bool complete = false;
    mailbox_.changed.wait(lock, [&] { return (complete = take(channel)) || mailbox_.closed; });
    if (!complete) throw std::runtime_error("another rank has failed");
  }

 private:
  void begin(std::size_t channel, std::span<const Send> sends,
             std::span<const Receive> receives) override {
    const std::lock_guard lock(mailbox_.mutex);
    if (!receives_[channel].empty()) throw std::logic_error("a channel was not finished");
    for (const Send& send : sends)
      mailbox_.messages[{rank_, send.to, channel}].emplace_back(send.bytes.begin(),
                                                                send.bytes.end());
    mailbox_.changed.notify_all();
    receives_[channel].assign(receives.begin(), receives.end());
  }

  // Receives available messages in order. Returns true if no more are expected.
  bool take(std::size_t channel) {
    std::deque<Receive>& receives = receives_[channel];
    for (; !receives.empty(); receives.pop_front()) {
      auto& messages = mailbox_.messages[{receives.front().from, rank_, channel}];
      if (messages.empty()) return false;
      if (messages.front().size() != receives.front().bytes.size())
        throw std::logic_error("a message has a length that its receiver does not expect");
      std::ranges::copy(messages.front(), receives.front().bytes.begin());
      messages.pop_front();
    }
    return true;
  }

  Mailbox& mailbox_;
  std::size_t rank_;
  std::size_t size_;
  std::map<std::size_t, std::deque<Receive>> receives_;  // by channel
};

/// Runs body(ranks) in `count` threads, one per rank, and rethrows the first exception.
inline void run_ranks(std::size_t count, const std::function<void(ProcessGroup&)>& body) {
  ThreadGroup::Mailbox mailbox;
  std::vector<std::exception_ptr> thrown;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      ThreadGroup ranks(mailbox, rank, count);
      try {
        body(ranks);
      } catch (...) {
        const std::lock_guard lock(mailbox.mutex);
        thrown.push_back(std::current_exception());
        mailbox.closed = true;
        mailbox.changed.notify_all();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (!thrown.empty()) std::rethrow_exception(thrown.front());
}

}  // namespace rowgrad::testing
