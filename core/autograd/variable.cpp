#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// How variables know whether their tape still exists. Each tape has a slot, which outlives it and
/// serves another tape later. A variable stores the slot and the number that it had then: if the
/// slot has another one, the tape is gone, which is found out without touching freed memory.
struct TapeSlot {
  std::atomic<std::uint64_t> serial = 0;  // odd while a tape has the slot
  Tape* tape = nullptr;
  TapeSlot* next_free = nullptr;
};

namespace {

// Never destroyed: a tape in static storage may outlive any other static object.
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
  check_state(slot_ != nullptr, "Variable: this handle was never given a value");
  check_state(slot_->serial == serial_, "Variable: its tape has been destroyed");
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
  const Tensor& number = value();
  check_argument(number.size() == 1, "Variable::item: shape ", bracketed(number.shape()), " has ",
                 number.size(), " numbers, expected one");
  return *number.data();
}

bool Variable::needs_gradient() const { return tape().nodes_[index_].needs_gradient; }

}  // namespace rowgrad
