#pragma once

// Tests for all objects that can be saved and resumed: a resumed object has the same bits as an
// uninterrupted one; it rejects a damaged state and stays unchanged; and running out of memory in
// any call does no harm.

#include <algorithm>
#include <fnmatch.h>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/checkpoints.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/layers/layer.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad::testing {

class Running {
 public:
  virtual ~Running() = default;
  /// Takes a step and returns its visible result, such as a loss or random numbers.
  virtual std::string step() = 0;
  virtual StateDict save() = 0;
  virtual void load(const StateDict& state) = 0;
  /// Returns the part of the state that is equal after equal steps.
  virtual std::string bits() { return bits_of(save()); }
};

/// A model and its optimizer. Loads nothing unless both states fit.
class RunningModel : public Running {
 public:
  /// Saves the model first: reading its rows applies deferred steps, which changes the optimizer.
  StateDict save() override {
    StateDict state;
    state.put("model", model().state_dict());
    state.put("optimizer", optimizer().state_dict());
    return state;
  }
  void load(const StateDict& state) override {
    model().load_state_dict(state.part("model"), {.dry_run = true});
    optimizer().check_state_dict(state.part("optimizer"));
    model().load_state_dict(state.part("model"));
    optimizer().load_state_dict(state.part("optimizer"));
  }

 private:
  virtual Layer& model() = 0;
  virtual Optimizer& optimizer() = 0;
};

struct Resumable {
  std::string name;
  /// Creates an object. If `other` is true, it starts with other values, all of which load() must
  /// replace.
  std::function<std::unique_ptr<Running>(bool other)> make;
  std::size_t steps;
  std::vector<std::size_t> stops = {};  // steps before which to save; empty: all steps
  /// Patterns of damage that load() may accept, or reject after changing the object; see damaged().
  std::vector<std::string> taken = {};
  std::vector<std::size_t> failing = {};  // steps after which memory runs out

  std::unique_ptr<Running> after(std::size_t made) const {
    auto running = make(false);
    for (std::size_t i = 0; i < made; ++i) running->step();
    return running;
  }
};

inline void PrintTo(const Resumable& what, std::ostream* out) { *out << what.name; }

/// Stops before each step in `stops`, and resumes from a file in a new object. Then loads each
/// saved state into the same object, last state first, and repeats the steps after it.
inline void expect_to_go_on(const Resumable& what) {
  std::vector<std::size_t> stops = what.stops;
  for (std::size_t i = 0; what.stops.empty() && i < what.steps; ++i) stops.push_back(i);
  std::vector<std::string> seen;
  const auto whole = what.make(false);
  for (std::size_t i = 0; i < what.steps; ++i) seen.push_back(whole->step());
  const auto go_on = [&](Running& running, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) ASSERT_TRUE(running.step() == seen[i]) << "step " << i;
  };
  const TemporaryFolder folder;
  std::vector<StateDict> states;
  std::vector<std::string> bits;
  auto running = what.make(false);
  for (const std::size_t stop : stops) {
    go_on(*running, states.empty() ? 0 : stops[states.size() - 1], stop);
    states.push_back(running->save());
    bits.push_back(running->bits());
    write_safetensors(folder / "state", states.back());
    running.reset();  // the next object may use the same files
    running = what.make(true);
    running->load(read_safetensors(folder / "state"));
    ASSERT_TRUE(running->bits() == bits.back()) << "loaded before step " << stop;
  }
  go_on(*running, stops.back(), what.steps);
  bits.push_back(whole->bits());
  ASSERT_TRUE(running->bits() == bits.back());
  stops.push_back(what.steps);
  for (std::size_t i = states.size(); i-- > 0;) {
    running->load(states[i]);
    go_on(*running, stops[i], stops[i + 1]);
    ASSERT_TRUE(running->bits() == bits[i + 1]) << "back to step " << stops[i];
  }
}

/// Returns copies of a state dict, each with one fault, and the names of the faults: "no step",
/// "other kind of step", "longer step", "-1 in step", "2^62 in step", "NaN in rates",
/// "unknown model.more".
inline std::vector<std::pair<std::string, StateDict>> damaged(const StateDict& good) {
  std::vector<std::pair<std::string, StateDict>> all;
  std::set<std::string> parts;
  for (const std::string& name : good.names()) {
    // This checksum is verified only after loading.
    if (name.ends_with(".lazy.checksum")) continue;
    parts.insert(name.substr(0, name.rfind('.') + 1));
    const auto put = [&](const std::string& damage, StateDict::Value value) {
      all.emplace_back(damage + name, with(good, name, std::move(value)));
    };
    const auto put_longer = [&](auto array) {
      array.values.push_back(1);
      array.shape = {array.values.size()};
      put("longer ", std::move(array));
    };
    const auto put_first = [&](const std::string& damage, auto array, auto number) {
      if (array.values.empty()) return;
      array.values.front() = number;
      put(damage, std::move(array));
    };
    all.emplace_back("no " + name, without(good, name));
    const StateDict::Value& value = good.at(name);
    if (std::holds_alternative<std::string>(value)) {
      put("other kind of ", StateDict::Integers{{}, {1}});
      continue;
    }
    put("other kind of ", "a text");
    if (const auto* whole = std::get_if<StateDict::Integers>(&value)) {
      put_longer(*whole);
      put_first("-1 in ", *whole, -1);
      put_first("2^62 in ", *whole, std::int64_t{1} << 62);
    } else if (const auto* doubles = std::get_if<StateDict::Doubles>(&value)) {
      put_longer(*doubles);
      put_first("-1 in ", *doubles, -1);
      put_first("NaN in ", *doubles, NAN);
    } else {
      Tensor numbers = std::get<Tensor>(value);
      put("longer ", zeros({numbers.size() + 1}));
      if (numbers.size() > 0) numbers.data()[0] = NAN;
      put("NaN in ", std::move(numbers));
    }
  }
  for (const std::string& part : parts)
    all.emplace_back("unknown " + part + "more", with(good, part + "more", std::int64_t{1}));
  return all;
}

/// Loads damaged states in the middle of a run. Each state that no pattern in `taken` matches must
/// be rejected with std::invalid_argument, and change nothing. After each state that matches, a
/// good state is loaded. The run then continues as before.
inline void expect_to_refuse_damage(const Resumable& what) {
  const auto running =
      what.after(what.stops.empty() ? what.steps / 2 : what.stops[what.stops.size() / 2]);
  const StateDict good = running->save();
  const std::string bits = running->bits();
  const auto expect_to_go_on = [&] {
    const auto twin = what.make(true);
    twin->load(good);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(running->step() == twin->step());
    EXPECT_TRUE(running->bits() == twin->bits());
    running->load(good);
  };
  std::set<std::string> needed;
  const std::vector<std::pair<std::string, StateDict>> all = damaged(good);
  for (const bool taken : {false, true}) {
    for (const auto& [damage, state] : all) {
      const auto pattern = std::ranges::find_if(what.taken, [&, name = damage](const auto& each) {
        return fnmatch(each.c_str(), name.c_str(), FNM_EXTMATCH) == 0;
      });
      if (taken != (pattern != what.taken.end())) continue;
      if (taken) needed.insert(*pattern);
      const StateDict& wrong = state;
      const std::string message = error_of<std::invalid_argument>([&] { running->load(wrong); });
      EXPECT_FALSE(message.starts_with("another error")) << damage << ": " << message;
      EXPECT_TRUE(taken || message != "no error") << damage << " was accepted";
      if (taken || message == "no error") running->load(good);
      EXPECT_TRUE(running->bits() == bits) << damage << ": " << message;
    }
    expect_to_go_on();
  }
  EXPECT_EQ(needed, std::set<std::string>(what.taken.begin(), what.taken.end()));
}

/// Lets each memory request fail, in a step, while saving and while loading. Afterwards, the saved
/// state must load, and the run must continue from it.
inline void expect_to_survive_failing_memory(const Resumable& what, std::size_t steps) {
  const auto make = [&] { return what.after(steps); };
  const auto make_other = [&] { return what.make(true); };
  const auto go_on = [](Running& running) {
    std::string seen;
    for (int i = 0; i < 3; ++i) seen += running.step();
    return seen + running.bits();
  };
  const auto twin = make();
  const StateDict saved = twin->save();
  const std::string expected = go_on(*twin);
  twin->load(saved);
  twin->step();
  const std::string after_a_step = go_on(*twin);
  for_every_failure(
      make, [](Running& running) { running.step(); },
      [&](Running& running, bool finished) {
        if (!finished) {
          running.load(saved);
          running.step();
        }
        EXPECT_TRUE(go_on(running) == after_a_step) << "a step";
      });
  StateDict found;
  for_every_failure(
      make, [&](Running& running) { (found = {}) = running.save(); },
      [&](Running& running, bool finished) {
        if (finished) running.load(found);
        EXPECT_TRUE(go_on(running) == expected) << "saving";
      });
  for_every_failure(
      make_other, [&](Running& running) { running.load(saved); },
      [&](Running& running, bool finished) {
        if (!finished) running.load(saved);
        EXPECT_TRUE(go_on(running) == expected) << "loading";
      });
}

/// Runs all three checks.
inline void expect_resumable(const Resumable& what) {
  SCOPED_TRACE(what.name);
  expect_to_go_on(what);
  expect_to_refuse_damage(what);
  for (const std::size_t steps : what.failing) expect_to_survive_failing_memory(what, steps);
}

}  // namespace rowgrad::testing
