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

/// Processes that exchange messages (MPI's communicator), as one of them sees the others. Each has
/// a rank, a number from 0 on. All functions that exchange something are to be called by all ranks
/// in the same order. They throw std::runtime_error, naming the rank, if one cannot be reached.
class ProcessGroup {
 public:
  /// What goes to a rank.
  struct Send {
    std::size_t to;                    // the rank that gets it
    std::span<const std::byte> bytes;  // borrowed until it has gone
  };
  /// What comes from a rank.
  struct Receive {
    std::size_t from;            // the rank that sends it
    std::span<std::byte> bytes;  // where it goes, all of it
  };

  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  virtual ~ProcessGroup() = default;

  virtual std::size_t size() const = 0;  // number of ranks
  virtual std::size_t rank() const = 0;  // of this process, from 0 on

  /// The name of a rank, for messages: "rank 1", or "rank 1 on h2" if hosts are known and differ.
  virtual std::string name_of(std::size_t rank) const { return "rank " + std::to_string(rank); }

  /// All ranks but this one.
  std::vector<std::size_t> others() const;

  /// Makes all these transfers to and from other ranks. Between two ranks, messages arrive in the
  /// order of the lists, and must have the lengths that the receiver expects.
  void exchange(std::span<const Send> sends, std::span<const Receive> receives);

  /// The same in steps, to compute meanwhile: start() returns at once, done() moves the transfers
  /// of all channels on, without waiting, and says whether those of this one are complete, and
  /// finish() waits for them. Until then, the bytes must stay where they are, and the channel
  /// starts no others. Any number of channels from 1 on may be under way, and ranks may start them
  /// in different orders: messages of one never arrive in another.
  void start(std::size_t channel, std::span<const Send> sends, std::span<const Receive> receives);
  virtual bool done(std::size_t channel) = 0;
  virtual void finish(std::size_t channel) = 0;

  /// What each rank passes, one after another; all pass equally many.
  template <class Number>
  std::vector<Number> all_gather(std::span<const Number> mine) {
    std::vector<Number> all(size() * mine.size());
    gather_bytes(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
    return all;
  }

  /// Sends sent[rank] to each other rank, which it receives in received[rank]: spans, texts or
  /// vectors of numbers, of the lengths that are expected.
  void all_to_all(const auto& sent, auto& received) {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (const std::size_t other : others()) {
      sends.push_back({other, std::as_bytes(std::span(sent[other]))});
      receives.push_back({other, std::as_writable_bytes(std::span(received[other]))});
    }
    exchange(sends, receives);
  }

  /// The same for texts or vectors of any lengths; and what each rank passes for all.
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
  template <class List>
  std::vector<List> all_gather_lists(const List& mine) {
    return all_to_all_lists(std::vector<List>(size(), mine));
  }

  /// Whether it is true on any rank.
  bool any(bool mine);

  /// What this rank has sent so far.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  virtual void begin(std::size_t channel, std::span<const Send> sends,
                     std::span<const Receive> receives) = 0;
  void gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all);

  std::uint64_t bytes_sent_ = 0;
};

/// A process that is alone.
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
