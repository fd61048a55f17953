#pragma once

// Ranks that are threads of one process, for tests.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <omp.h>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <rowgrad/core/parallel/ranks.hpp>

namespace rowgrad::testing {

class ThreadRanks : public Ranks {
 public:
  /// Where messages wait.
  struct Post {
    std::mutex mutex;
    std::condition_variable news;
    std::map<std::pair<std::size_t, std::size_t>, std::deque<std::vector<std::byte>>> letters;
    bool closed = false;
  };

  ThreadRanks(Post& post, std::size_t rank, std::size_t size)
      : post_(post), rank_(rank), size_(size) {}
  std::size_t size() const override { return size_; }
  std::size_t rank() const override { return rank_; }

 private:
  void transfer(std::span<const Send> sends, std::span<const Receive> receives) override {
    std::unique_lock lock(post_.mutex);
    for (const Send& send : sends)
      post_.letters[{rank_, send.to}].emplace_back(send.bytes.begin(), send.bytes.end());
    post_.news.notify_all();
    for (const Receive& receive : receives) {
      auto& letters = post_.letters[{receive.from, rank_}];
      post_.news.wait(lock, [&] { return !letters.empty() || post_.closed; });
      if (letters.empty()) throw std::runtime_error("another rank has failed");
      if (letters.front().size() != receive.bytes.size())
        throw std::logic_error("a message has another length than its receiver expects");
      std::ranges::copy(letters.front(), receive.bytes.begin());
      letters.pop_front();
    }
  }

  Post& post_;
  std::size_t rank_;
  std::size_t size_;
};

/// Runs body(ranks) in `count` threads, each of which is a rank and computes with one thread, and
/// rethrows the first exception.
inline void run_ranks(std::size_t count, const std::function<void(Ranks&)>& body) {
  ThreadRanks::Post post;
  std::vector<std::exception_ptr> thrown;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      omp_set_num_threads(1);
      ThreadRanks ranks(post, rank, count);
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
