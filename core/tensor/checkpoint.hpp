#pragma once

// The state of anything that has some: layers, optimizers, schedules, loaders, random numbers. Each
// gives it with state_dict() and takes it back with load_state_dict(). The state of a program is
// put together from theirs, and is a file of its own (core/io/safetensors.hpp):
//
//   Checkpoint all;
//   all.put("model", model.state_dict());  // "model.token.weight", …
//   all.put("optimizer", optimizer.state_dict());
//   all.put("steps", steps);
//   write_safetensors("run.safetensors", all);

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// A new name for some of a checkpoint's values. Each `*` in `from` stands for one character or
/// more, and each in `to` for what the same one in `from` stood for:
/// {.from = "h.*.mlp.c_fc.weight", .to = "blocks.*.up.weight", .transpose = true}.
struct Renaming {
  std::string from;
  std::string to;
  bool transpose = false;  // of a matrix
};

/// Tensors, whole numbers, numbers in double precision, and texts, by name. A plain value; a copy
/// costs no more than its names.
class Checkpoint {
 public:
  template <class Number>
  struct Array {
    Shape shape;
    std::vector<Number> values;
  };
  using Integers = Array<std::int64_t>;
  using Doubles = Array<double>;
  using Value = std::variant<Tensor, Integers, Doubles, std::string>;

  /// Adds a value. Throws std::invalid_argument for a name that is taken.
  void put(const std::string& name, Value value);
  void put(const std::string& name, const char* text) { put(name, Value(std::string(text))); }
  void put(const std::string& name, std::integral auto number) {
    put(name, Integers{{}, {static_cast<std::int64_t>(number)}});
  }
  void put(const std::string& name, std::floating_point auto number) {
    put(name, Doubles{{}, {static_cast<double>(number)}});
  }
  void put(const std::string& name, std::vector<std::int64_t> numbers) {
    put(name, Integers{{numbers.size()}, std::move(numbers)});
  }
  void put(const std::string& name, std::vector<double> numbers) {
    put(name, Doubles{{numbers.size()}, std::move(numbers)});
  }

  /// All values of another checkpoint, as "prefix.name", and back.
  void put(const std::string& prefix, const Checkpoint& part);
  Checkpoint part(const std::string& prefix) const;

  /// A copy with other names. The first renaming that fits a name holds; names that none fits stay.
  /// Throws std::invalid_argument where two names would become one, where `to` has more `*` than
  /// `from`, and for the transpose of anything but a matrix.
  Checkpoint renamed(std::span<const Renaming> renamings) const;

  void erase(const std::string& name) { values_.erase(name); }
  bool contains(const std::string& name) const { return values_.contains(name); }
  bool empty() const { return values_.empty(); }
  std::vector<std::string> names() const;  // in order

  /// One value. Throws std::invalid_argument that names it if it is missing or of another kind, and
  /// so do all that follow.
  const Value& at(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  std::uint64_t count(const std::string& name) const;  // an integer that is not negative

  /// Tensors and numbers in double precision are read as either.
  std::vector<double> doubles(const std::string& name) const;
  double number(const std::string& name) const;
  Tensor tensor(const std::string& name, const Shape& expected) const;

  /// The same in two parts, the second of which cannot fail after the first.
  void check_shape(const std::string& name, const Shape& expected) const;
  void copy_to(const std::string& name, std::span<real> numbers) const;

 private:
  template <class Kind>
  const Kind& get(const std::string& name, const char* kind) const;
  template <class... Parts>
  void check(bool condition, const std::string& name, const Parts&... parts) const;

  std::string prefix_;  // of the names in a whole that this is a part of; for messages
  std::map<std::string, std::shared_ptr<const Value>> values_;  // shared by the whole and its parts
};

}  // namespace rowgrad
