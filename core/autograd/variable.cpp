#include <memory>
#include <mutex>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/autograd/tape_slot.hpp>

namespace rowgrad {
namespace {

class TapeSlots {
 public:
  TapeSlot* acquire(Tape* tape) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique<TapeSlot>());
      free_.reserve(all_.capacity());  // so that release() needs no memory
      free_.push_back(all_.back().get());
    }
    TapeSlot* slot = free_.back();
    free_.pop_back();
    slot->tape = tape;
    ++slot->serial;
    return slot;
  }
  void release(TapeSlot* slot) noexcept {
    const std::scoped_lock lock(mutex_);
    ++slot->serial;
    slot->tape = nullptr;
    free_.push_back(slot);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<TapeSlot>> all_;
  std::vector<TapeSlot*> free_;
};

// Never destroyed: a tape in static storage may outlive any other static object.
TapeSlots& tape_slots() {
  static TapeSlots& slots = *new TapeSlots;
  return slots;
}

}  // namespace

TapeSlot* acquire_tape_slot(Tape* tape) { return tape_slots().acquire(tape); }

void release_tape_slot(TapeSlot* slot) noexcept { tape_slots().release(slot); }

Tape& Variable::tape() const {
  check_state(slot_ != nullptr, "Variable: this handle was never given a value");
  check_state(slot_->serial == serial_, "Variable: its tape has been destroyed");
  return *slot_->tape;
}

const Tensor& Variable::value() const { return tape().nodes_[index_].value(); }

const Shape& Variable::shape() const { return tape().nodes_[index_].shape(); }

std::string Variable::name() const { return tape().nodes_[index_].name(); }

std::ostream& operator<<(std::ostream& stream, const Variable& variable) {
  return stream << variable.name() << ' ' << bracketed(variable.shape()) << ' ' << variable.value();
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
