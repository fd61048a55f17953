#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// A slot through which variables detect that their tape was destroyed, without touching freed
/// memory. Each tape has a slot, which outlives the tape and is reused by later tapes. A variable
/// stores the slot and the slot's serial number. If the slot's number has changed, the tape is
/// gone.
struct TapeSlot {
  std::atomic<std::uint64_t> serial = 0;  // odd while a tape uses the slot
  Tape* tape = nullptr;
  TapeSlot* next_free = nullptr;
};

namespace {

// Slots are never destroyed, as a tape in static storage may outlive any other static object.
constinit std::mutex slots_mutex;
constinit TapeSlot* free_slots = nullptr;

}  // namespace

Tape::Tape(Mode mode) : mode_(mode) {
  const std::scoped_lock lock(slots_mutex);
  slot_ = free_slots != nullptr ? free_slots : new TapeSlot;
  free_slots = slot_->next_free;
  slot_->tape = this;
  ++slot_->serial;
}

Tape::Tape(Random& random, Mode mode) : Tape(mode) { random_ = &random; }

Tape::~Tape() {
  const std::scoped_lock lock(slots_mutex);
  ++slot_->serial;
  slot_->tape = nullptr;
  slot_->next_free = std::exchange(free_slots, slot_);
}

Variable::Variable(const TapeSlot* slot, std::uint32_t index)
    : slot_(slot), serial_(slot->serial), index_(index) {}

Tape& Variable::tape() const {
  check_state(slot_ != nullptr, "Variable: the variable was never given a value");
  check_state(slot_->serial == serial_, "Variable: the tape of the variable was destroyed");
  return *slot_->tape;
}

const Tensor& Variable::value() const { return tape().nodes_[index_].value(); }

const Tensor& Variable::read() const { return tape().nodes_[index_].read(); }

const Shape& Variable::shape() const { return tape().nodes_[index_].shape(); }

std::string Variable::name() const { return tape().nodes_[index_].name(); }

std::ostream& operator<<(std::ostream& stream, const Variable& variable) {
  stream << variable.name() << ' ' << bracketed(variable.shape()) << ' ';
  try {
    return stream << variable.value();
  } catch (const std::logic_error& error) {  // the value was released, or is in a file
    return stream << '(' << error.what() << ')';
  }
}

Parameter* Variable::parameter() const { return tape().nodes_[index_].parameter; }

real Variable::item() const {
  const Tensor& all = value();
  check_argument(all.size() == 1, "Variable::item: the value has shape ", bracketed(all.shape()),
                 ", expected a single element");
  return *all.data();
}

bool Variable::needs_gradient() const { return tape().nodes_[index_].needs_gradient; }

}  // namespace rowgrad
