#pragma once

// Ranks that are threads of one process, for tests.

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
  /// Where messages wait.
  struct Post {
    std::mutex mutex;
    std::condition_variable news;
    std::map<std::array<std::size_t, 3>, std::deque<std::vector<std::byte>>>
        letters;  // [from, to, channel]
    bool closed = false;
  };

  ThreadGroup(Post& post, std::size_t rank, std::size_t size)
      : post_(post), rank_(rank), size_(size) {}
  std::size_t size() const override { return size_; }
  std::size_t rank() const override { return rank_; }
  bool done(std::size_t channel) override {
    const std::lock_guard lock(post_.mutex);
    return take(channel);
  }
  void finish(std::size_t channel) override {
    std::unique_lock lock(post_.mutex);
    bool complete = false;
    post_.news.wait(lock, [&] { return (complete = take(channel)) || post_.closed; });
    if (!complete) throw std::runtime_error("another rank has failed");
  }

 private:
  void begin(std::size_t channel, std::span<const Send> sends,
             std::span<const Receive> receives) override {
    const std::lock_guard lock(post_.mutex);
    if (!awaited_[channel].empty()) throw std::logic_error("a channel was not finished");
    for (const Send& send : sends)
      post_.letters[{rank_, send.to, channel}].emplace_back(send.bytes.begin(), send.bytes.end());
    post_.news.notify_all();
    awaited_[channel].assign(receives.begin(), receives.end());
  }

  // Takes the letters that have come for the first of those awaited.
  bool take(std::size_t channel) {
    std::deque<Receive>& awaited = awaited_[channel];
    for (; !awaited.empty(); awaited.pop_front()) {
      auto& letters = post_.letters[{awaited.front().from, rank_, channel}];
      if (letters.empty()) return false;
      if (letters.front().size() != awaited.front().bytes.size())
        throw std::logic_error("a message has another length than its receiver expects");
      std::ranges::copy(letters.front(), awaited.front().bytes.begin());
      letters.pop_front();
    }
    return true;
  }

  Post& post_;
  std::size_t rank_;
  std::size_t size_;
  std::map<std::size_t, std::deque<Receive>> awaited_;  // [channel]
};

/// Runs body(ranks) in `count` threads, each of which is a rank and computes with one thread, and
/// rethrows the first exception.
inline void run_ranks(std::size_t count, const std::function<void(ProcessGroup&)>& body) {
  ThreadGroup::Post post;
  std::vector<std::exception_ptr> thrown;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      ThreadGroup ranks(post, rank, count);
      try {
        body(ranks);
      } catch (...) {
        const std::lock_guard lock(post.mutex);
        thrown.push_back(std::current_exception());
        post.closed = true;
        post.news.notify_all();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (!thrown.empty()) std::rethrow_exception(thrown.front());
}

}  // namespace rowgrad::testing
