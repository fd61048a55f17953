#pragma once

// The state of layers, optimizers, schedules, loaders, random generators and training runs. Each
// object returns its state from state_dict() and restores it with load_state_dict(). A program
// combines these state dicts and writes them to a checkpoint file (core/tensor/safetensors.hpp):
//
//   StateDict all;
//   all.put("model", model.state_dict());  // "model.token.weight", …
//   all.put("optimizer", optimizer.state_dict());
//   all.put("steps", steps);
//   write_safetensors("run.safetensors", all);
//
// Functions throw std::invalid_argument for wrong arguments, and for values that are missing or of
// another type. The message names the value.

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

/// A rule for renaming values. Each `*` in `from` matches one or more characters, which replace the
/// corresponding `*` in `to`:
/// {.from = "h.*.mlp.c_fc.weight", .to = "blocks.*.up.weight", .transpose = true}.
struct Renaming {
  std::string from;        // must match the whole name
  std::string to;          // pattern of the new name
  bool transpose = false;  // requires a matrix
};

/// A state dict: tensors, integers, double-precision numbers and strings by name. Has value
/// semantics; copies share the data, so only the names are copied.
class StateDict {
 public:
  /// An array of numbers.
  template <class Number>
  struct Array {
    Shape shape;                 // [] for a single number
    std::vector<Number> values;  // in row-major order
  };
  using Integers = Array<std::int64_t>;  // 64-bit integers
  using Doubles = Array<double>;         // double precision, even in the float library
  using Value = std::variant<Tensor, Integers, Doubles, std::string>;  // a value of any type

  /// Adds a value. Throws for a duplicate name, for an array whose length does not match its shape,
  /// and for an integer of 2^63 or more.
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

  /// Adds all values of another state dict as "prefix.name". If it throws, nothing is added.
  void put(const std::string& prefix, const StateDict& part);

  /// Returns the values called "prefix.name", renamed to "name".
  StateDict part(const std::string& prefix) const;

  /// Returns a copy with new names. The first matching rule applies to each name; names that match
  /// no rule are kept. Throws if two values would get the same name.
  StateDict renamed(std::span<const Renaming> renamings) const;

  /// Removes a value if it exists.
  void erase(const std::string& name) { values_.erase(name); }

  /// Returns true if this name exists.
  bool contains(const std::string& name) const { return values_.contains(name); }
  bool empty() const { return values_.empty(); }  // returns true without values
  std::vector<std::string> names() const;         // returns all names, sorted

  const Value& at(const std::string& name) const;            // returns a value of any type
  const std::string& string(const std::string& name) const;  // returns a string
  /// Former name of string().
  [[deprecated("use string()")]] const std::string& text(const std::string& name) const {
    return string(name);
  }
  std::vector<std::int64_t> integers(const std::string& name) const;  // returns an integer array
  std::int64_t integer(const std::string& name) const;                // returns a single integer
  std::uint64_t count(const std::string& name) const;                 // returns an integer >= 0

  /// Returns the values of a tensor, of double-precision numbers, or of integers from −2^53 to
  /// 2^53.
  std::vector<double> doubles(const std::string& name) const;

  /// Returns a single value, converted like doubles().
  double number(const std::string& name) const;

  /// Returns a tensor, or double-precision numbers as a tensor. The shape must be `expected`.
  Tensor tensor(const std::string& name, const Shape& expected) const;

  /// Returns the shape of a tensor or of double-precision numbers.
  const Shape& shape(const std::string& name) const;

  /// Checks the shape as tensor() does.
  void check_shape(const std::string& name, const Shape& expected) const;

  /// Copies the values of a tensor. Cannot fail after check_shape().
  void copy_to(const std::string& name, std::span<real> values) const;

 private:
  template <class Kind>
  const Kind& get(const std::string& name, const char* kind) const;
  // Formats the message only on failure, as copy_to() must not allocate memory.
  template <class... Parts>
  void check(bool condition, const std::string& name, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      check_argument(false, "StateDict: ", in_quotes(prefix_ + name), parts...);
  }

  std::string prefix_;  // prefix that part() removed, for messages
  std::map<std::string, std::shared_ptr<const Value>> values_;  // shared with copies and parts
};

/// Former name of StateDict.
using Checkpoint [[deprecated("use StateDict")]] = StateDict;

// Sparse form, for large tables of which few rows were ever updated. A table of 1 MiB or more is
// saved as its nonzero rows, "name.rows" [n] and "name.values" [n, width], if these take at most
// half the memory. Other tables are saved in dense form, as `name`. Lists of integers are saved
// likewise, with "name.values" [n].

/// The nonzero rows of a table.
struct SparseRows {
  std::vector<std::int64_t> rows;  // row indices, increasing
  Tensor values;                   // [rows, width]
};

/// The nonzero integers of a list.
struct SparseIntegers {
  std::vector<std::int64_t> rows;    // indices, increasing
  std::vector<std::int64_t> values;  // one for each index
};

/// Adds a tensor to a state dict, in dense or sparse form as described above.
void put_table(StateDict& state, const std::string& name, const Tensor& table);

/// Adds a table like put_table(). Requires: `sparse` has all nonzero rows.
void put_sparse_rows(StateDict& state, const std::string& name, const Shape& shape,
                     SparseRows sparse);

/// Adds a list of integers, like put_table().
void put_integers(StateDict& state, const std::string& name, std::vector<std::int64_t> all);

/// Adds a list of `count` integers like put_table(). Integers not in `sparse` are 0.
void put_sparse_integers(StateDict& state, const std::string& name, std::size_t count,
                         SparseIntegers sparse);

/// Returns true if a state dict has this tensor or list in either form.
bool has_table(const StateDict& state, const std::string& name);

/// Returns true if a state dict has this tensor or list in sparse form.
bool has_sparse_rows(const StateDict& state, const std::string& name);

/// Returns the whole tensor. Throws std::invalid_argument if it is missing, present in both forms,
/// or of another shape, and if row indices do not increase or are out of range.
Tensor get_table(const StateDict& state, const std::string& name, const Shape& shape);

/// Returns the rows of a tensor in sparse form. Throws like get_table().
SparseRows get_sparse_rows(const StateDict& state, const std::string& name, const Shape& shape);

/// Returns the whole list of integers. Throws like get_table(), but a list in dense form may have
/// another length.
std::vector<std::int64_t> get_integers(const StateDict& state, const std::string& name,
                                       std::size_t count);

}  // namespace rowgrad
