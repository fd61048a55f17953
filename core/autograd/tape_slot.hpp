#pragma once

// How variables know whether their tape still exists.

#include <atomic>
#include <cstdint>

namespace rowgrad {

class Tape;

/// Each tape registers in a slot that outlives it. A variable stores the slot and the tape's serial
/// number there, so a variable of a destroyed tape is recognised without touching freed memory.
struct TapeSlot {
  std::atomic<std::uint64_t> serial = 0;  // odd while the slot is in use
  Tape* tape = nullptr;                   // while the slot is in use
};

/// Gives a tape a slot, and takes it back when the tape is destroyed.
TapeSlot* acquire_tape_slot(Tape* tape);
void release_tape_slot(TapeSlot* slot) noexcept;

}  // namespace rowgrad
