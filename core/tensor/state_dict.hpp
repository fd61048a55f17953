#pragma once

// The saved state of layers, optimizers, schedules, loaders, random generators and training runs.
// Each returns its state from state_dict() and restores it with load_state_dict(). A program puts
// these states together and writes them to a file (core/tensor/safetensors.hpp):
//
//   StateDict all;
//   all.put("model", model.state_dict());  // "model.token.weight", …
//   all.put("optimizer", optimizer.state_dict());
//   all.put("steps", steps);
//   write_safetensors("run.safetensors", all);
//
// Wrong arguments throw std::invalid_argument, and so do values that are missing or of another
// kind: messages name them.

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// A new name for values of a checkpoint. Each `*` in `from` matches one or more characters; each
/// in `to` is replaced by what the corresponding one in `from` matched:
/// {.from = "h.*.mlp.c_fc.weight", .to = "blocks.*.up.weight", .transpose = true}.
struct Renaming {
  std::string from;        // a pattern of the whole name
  std::string to;          // what the name becomes
  bool transpose = false;  // for matrices only
};

/// Tensors, integers, double-precision numbers and texts by name. Has value semantics; copies share
/// the data, so a copy costs no more than its names.
class StateDict {
 public:
  /// Numbers of one kind with a shape.
  template <class Number>
  struct Array {
    Shape shape;                 // [] for a single number
    std::vector<Number> values;  // in row-major order
  };
  using Integers = Array<std::int64_t>;  // of any length
  using Doubles = Array<double>;         // in double precision in both libraries
  using Value = std::variant<Tensor, Integers, Doubles, std::string>;  // of a name

  /// Adds a value. Refuses a name that is already taken, an array with another number of values
  /// than its shape, and an integer of 2^63 or more.
  void put(const std::string& name, Value value);
  void put(const std::string& name, const char* text) { put(name, Value(std::string(text))); }
  void put(const std::string& name, std::integral auto number) {
    const auto value = static_cast<std::int64_t>(number);
    check(value >= 0 || std::is_signed_v<decltype(number)>, name, " is more than 2^63 - 1");
    put(name, Integers{{}, {value}});
  }
  void put(const std::string& name, std::floating_point auto number) {
    put(name, Doubles{{}, {static_cast<double>(number)}});
  }
  template <class Number>
  void put(const std::string& name, std::vector<Number> numbers) {
    put(name, Array<Number>{{numbers.size()}, std::move(numbers)});
  }

  /// put adds all values of another checkpoint as "prefix.name"; part extracts them again.
  void put(const std::string& prefix, const StateDict& part);
  StateDict part(const std::string& prefix) const;

  /// A copy in which the first renaming that matches a name is applied to it; other names stay. No
  /// two values may get the same name.
  StateDict renamed(std::span<const Renaming> renamings) const;

  /// Removes a value, if there is one.
  void erase(const std::string& name) { values_.erase(name); }

  /// Whether there is a value of this name, whether there is none of any, and all names, sorted.
  bool contains(const std::string& name) const { return values_.contains(name); }
  bool empty() const { return values_.empty(); }
  std::vector<std::string> names() const;

  /// The value of a name, which must be of the kind that the function names: of any kind, a text,
  /// integers, a single integer, or one that is not negative.
  const Value& at(const std::string& name) const;
  const std::string& string(const std::string& name) const;
  [[deprecated("use string()")]] const std::string& text(const std::string& name) const {
    return string(name);
  }
  std::vector<std::int64_t> integers(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  std::uint64_t count(const std::string& name) const;

  /// Numbers of tensors and of double precision alike; doubles() and number() also take integers
  /// that a double holds exactly.
  std::vector<double> doubles(const std::string& name) const;
  double number(const std::string& name) const;
  Tensor tensor(const std::string& name, const Shape& expected) const;

  /// The shape of a tensor or of double-precision numbers.
  const Shape& shape(const std::string& name) const;

  /// tensor() in two steps: after check_shape(), copy_to() cannot fail.
  void check_shape(const std::string& name, const Shape& expected) const;
  void copy_to(const std::string& name, std::span<real> values) const;

 private:
  template <class Kind>
  const Kind& get(const std::string& name, const char* kind) const;
  // The message is made only when it is needed, as copy_to() must not ask for memory.
  template <class... Parts>
  void check(bool condition, const std::string& name, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      check_argument(false, "StateDict: ", in_quotes(prefix_ + name), parts...);
  }

  std::string prefix_;  // of a part: where its names are in the whole, for messages
  std::map<std::string, std::shared_ptr<const Value>> values_;  // shared with copies and parts
};

/// Former name of StateDict.
using Checkpoint [[deprecated("use StateDict")]] = StateDict;

// Few rows of a large table may ever have been touched. A table of 1 MiB or more is therefore saved
// as its rows that are not zeros, "name.rows" [n] and "name.values" [n, width], if these take less
// than half the memory; otherwise, as `name`. So are lists of integers, whose values are [n].

/// Holds rows of a table whose other rows are zeros.
struct SparseRows {
  std::vector<std::int64_t> rows;  // their numbers, in increasing order
  Tensor values;                   // [rows, width]
};

/// Holds the integers of a list whose others are 0.
struct SparseIntegers {
  std::vector<std::int64_t> rows;    // their places, in increasing order
  std::vector<std::int64_t> values;  // as many
};

/// Puts a tensor into a state, in the form that takes less memory.
void put_table(StateDict& state, const std::string& name, const Tensor& table);

/// Does the same for a table of this shape, of which `sparse` has all rows that are not zeros.
void put_sparse_rows(StateDict& state, const std::string& name, const Shape& shape,
                     SparseRows sparse);

/// Does the same for a list of integers.
void put_integers(StateDict& state, const std::string& name, std::vector<std::int64_t> all);

/// Does the same for a list of `count` integers, of which `sparse` has all that are not 0.
void put_sparse_integers(StateDict& state, const std::string& name, std::size_t count,
                         SparseIntegers sparse);

/// Returns true if a state has a tensor or list of this name in either form.
bool has_table(const StateDict& state, const std::string& name);

/// Returns true if it has the rows that are not zeros.
bool has_sparse_rows(const StateDict& state, const std::string& name);

/// Returns the whole tensor. Throws std::invalid_argument if it is missing, there in both forms, or
/// of another shape, and for row numbers that do not increase or are outside the table.
Tensor get_table(const StateDict& state, const std::string& name, const Shape& shape);

/// Returns the rows of a tensor that has_sparse_rows(). Throws like get_table().
SparseRows get_sparse_rows(const StateDict& state, const std::string& name, const Shape& shape);

/// Returns the whole list of integers. Throws like get_table(), but a list that was put as a whole
/// may have another length.
std::vector<std::int64_t> get_integers(const StateDict& state, const std::string& name,
                                       std::size_t count);

}  // namespace rowgrad
