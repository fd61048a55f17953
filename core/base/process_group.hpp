#pragma once

// The processes that train one model together.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rowgrad {

/// A group of processes that exchange messages (MPI's communicator), as seen by one of them. Each
/// process has a rank, counted from 0. Functions that exchange messages must be called in the same
/// order on all ranks. They throw std::runtime_error, naming the rank, if a rank is unreachable.
class ProcessGroup {
 public:
  /// A message to another rank.
  struct Send {
    std::size_t to;                    // the receiving rank
    std::span<const std::byte> bytes;  // must stay valid until sent
  };
  /// A message from another rank.
  struct Receive {
    std::size_t from;            // the sending rank
    std::span<std::byte> bytes;  // must have the length of the message
  };

  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  virtual ~ProcessGroup() = default;

  virtual std::size_t size() const = 0;  // returns the number of ranks
  virtual std::size_t rank() const = 0;  // returns the rank of this process

  /// Names a rank in error messages: "rank 1", or "rank 1 on h2" if hosts are known and differ.
  virtual std::string name_of(std::size_t rank) const { return "rank " + std::to_string(rank); }

  /// Returns all ranks except this one.
  std::vector<std::size_t> others() const;

  /// Sends and receives messages, and waits for all of them. Between two ranks, messages arrive in
  /// the order of the lists, and must have the lengths that the receiver expects.
  void exchange(std::span<const Send> sends, std::span<const Receive> receives);

  /// Starts an exchange() without waiting. Until done() returns true or finish() returns, the
  /// messages' memory must stay valid, and the channel must not be started again. Channel numbers
  /// start at 1. Ranks may start channels in different orders: each channel has its own messages.
  void start(std::size_t channel, std::span<const Send> sends, std::span<const Receive> receives);

  /// Makes progress on all channels without waiting. Returns true if this channel is complete.
  virtual bool done(std::size_t channel) = 0;

  /// Waits until this channel is complete.
  virtual void finish(std::size_t channel) = 0;

  /// Returns the elements of all ranks, in rank order (all-gather). `mine` must have the same size
  /// on every rank.
  template <class Number>
  std::vector<Number> all_gather(std::span<const Number> mine) {
    std::vector<Number> all(size() * mine.size());
    gather_bytes(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
    return all;
  }

  /// Sends sent[rank] to every other rank, and receives received[rank] from it (all-to-all). Both
  /// hold spans, strings or vectors. received[rank] must have the message's length.
  void all_to_all(const auto& sent, auto& received) {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (const std::size_t other : others()) {
      sends.push_back({other, std::as_bytes(std::span(sent[other]))});
      receives.push_back({other, std::as_writable_bytes(std::span(received[other]))});
    }
    exchange(sends, receives);
  }

  /// Exchanges strings or vectors of any length (all-to-all).
  template <class List>
  std::vector<List> all_to_all_lists(std::vector<List> sent) {
    std::vector<std::array<std::uint64_t, 1>> lengths, arriving(size());
    for (const List& list : sent) lengths.push_back({list.size()});
    all_to_all(lengths, arriving);
    std::vector<List> received;
    for (const auto& length : arriving) received.emplace_back().resize(length[0]);
    all_to_all(sent, received);
    received[rank()] = std::move(sent[rank()]);
    return received;
  }

  /// Gathers strings or vectors of any length (all-gather).
  template <class List>
  std::vector<List> all_gather_lists(const List& mine) {
    return all_to_all_lists(std::vector<List>(size(), mine));
  }

  /// Returns true if `mine` is true on any rank.
  bool any(bool mine);

  /// Returns the number of bytes this rank sent.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  virtual void begin(std::size_t channel, std::span<const Send> sends,
                     std::span<const Receive> receives) = 0;
  void gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all);

  std::uint64_t bytes_sent_ = 0;
};

/// A group of one process.
class SingleProcess : public ProcessGroup {
 public:
  std::size_t size() const override { return 1; }
  std::size_t rank() const override { return 0; }
  bool done(std::size_t) override { return true; }
  void finish(std::size_t) override {}

 private:
  void begin(std::size_t, std::span<const Send>, std::span<const Receive>) override {}
};

}  // namespace rowgrad
