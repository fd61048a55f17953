#pragma once

// The processes that train one model together.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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
  std::vector<Number> gather(std::span<const Number> mine) {
    std::vector<Number> all(size() * mine.size());
    gather_bytes(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
    return all;
  }

  /// The text that each rank passes, of any length; and that which each passes for this one, if it
  /// passes one for each rank.
  std::vector<std::string> gather_texts(std::string_view mine);
  std::vector<std::string> exchange_texts(std::vector<std::string> sent);

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
