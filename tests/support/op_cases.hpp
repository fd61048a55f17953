#pragma once

// Cases for the table of ops (core/ops/contracts_test.cpp): an op, its shapes, and a reference in
// double precision.

#include <cctype>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gradients.hpp"
#include "tests/support/tensors.hpp"

namespace rowgrad::testing {

using Shapes = std::vector<Shape>;  // shapes of an op's inputs

/// The value of an op, computed with simple loops.
using Reference = std::function<Tensor(const std::vector<Tensor>&)>;

/// The largest allowed error of an element, compared with the reference.
using Bound = std::function<double(const std::vector<Tensor>&, const Index&, double expected)>;

struct OpCase {
  std::string name;
  std::vector<Shapes> small;  // shapes for checks of values and gradients
  Shapes large;               // shapes for several threads, or empty
  Function op;
  Reference reference = {};   // may be empty
  Bound bound = {};           // empty: equality with the reference
  double low = -2, high = 2;  // range of the inputs
  bool has_quotients = true;  // true: gradients match difference quotients

  OpCase& gives(Reference expected, Bound within = {}) {
    reference = std::move(expected);
    bound = std::move(within);
    return *this;
  }
  OpCase& between(double lowest, double highest) {
    low = lowest;
    high = highest;
    return *this;
  }
  std::vector<Tensor> inputs(const Shapes& shapes) const {
    std::vector<Tensor> all;
    for (const Shape& shape : shapes)
      all.push_back(irregular(shape, static_cast<int>(all.size()) + 1, low, high));
    return all;
  }
};

struct OpTable {
  std::vector<OpCase> cases;

  OpCase& add(std::string name, std::vector<Shapes> small, Shapes large, Function op) {
    return cases.emplace_back(
        OpCase{std::move(name), std::move(small), std::move(large), std::move(op)});
  }
  OpCase& add(std::string name, std::vector<Shapes> small, Function op) {
    return add(std::move(name), std::move(small), {}, std::move(op));
  }
};

/// Returns the op of a case, which is the first word of its name.
template <class Case>
std::string op_of(const Case& item) {
  return item.name.substr(0, item.name.find_first_of(" ,"));
}

class OpTest : public ::testing::Test {
 public:
  explicit OpTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

/// Adds a test, such as Ops/LogSoftmax.Promise/log_softmax, for each op with a case for which
/// `applies` returns true.
template <class Case>
bool add_op_tests(const char* promise, const std::vector<Case>& cases, void (*check)(const Case&),
                  bool (*applies)(const Case&)) {
  std::map<std::string, std::vector<const Case*>> cases_of;
  for (const Case& item : cases)
    if (applies(item)) cases_of[op_of(item)].push_back(&item);
  for (const auto& entry : cases_of) {
    std::string suite = "Ops/";
    bool begins = true;
    for (const char letter : entry.first) {
      if (letter != '_') suite += begins ? static_cast<char>(std::toupper(letter)) : letter;
      begins = letter == '_';
    }
    const auto body = [check, own = entry.second] {
      for (const Case* const item : own) {
        SCOPED_TRACE(item->name);
        check(*item);
      }
    };
    ::testing::RegisterTest(suite.c_str(), concat(promise, '/', entry.first).c_str(), nullptr,
                            nullptr, __FILE__, __LINE__, [body] { return new OpTest(body); });
  }
  return true;
}

/// OP_TEST(Promise, Case, cases, applies) { … } runs for each case `item` for which applies(item)
/// is true.
#define OP_TEST(promise, Case, cases, applies)               \
  void promise(const Case& item);                            \
  [[maybe_unused]] const bool promise##IsTested =            \
      add_op_tests<Case>(#promise, cases, promise, applies); \
  void promise(const Case& item)

template <class Case>
bool any_case(const Case&) {
  return true;
}

inline std::string list_of(const Shapes& shapes) {
  std::string list;
  for (const Shape& shape : shapes) list += concat(' ', bracketed(shape));
  return list;
}

inline Function one(Variable (*op)(const Variable&)) {
  return [op](Inputs x) { return op(x[0]); };
}
inline Function two(Variable (*op)(const Variable&, const Variable&)) {
  return [op](Inputs x) { return op(x[0], x[1]); };
}

/// Returns the tensor whose element at each index is entry(index), rounded once.
template <class Entry>
Tensor from_entries(const Shape& shape, const Entry& entry) {
  Tensor result = empty(shape);
  for (std::size_t k = 0; k < result.size(); ++k)
    result.data()[k] = static_cast<real>(entry(index_at(shape, k)));
  return result;
}

/// Returns a reference that applies a function elementwise.
inline Reference each(double (*function)(double)) {
  return [function](const std::vector<Tensor>& x) {
    return from_entries(x[0].shape(), [&](const Index& i) { return function(at(x[0], i)); });
  };
}

/// Returns the shape to which both shapes are broadcast.
inline Shape joined(const Shape& a, const Shape& b) {
  Shape result = a.size() < b.size() ? b : a;
  for (const Shape& shape : {a, b})
    for (std::size_t back = 1; back <= shape.size(); ++back)
      if (shape[shape.size() - back] != 1)
        result[result.size() - back] = shape[shape.size() - back];
  return result;
}

/// Returns a reference that applies a function to pairs of elements, broadcast. Computing one
/// operation in double and rounding to float equals rounding once, as double has more than twice
/// the digits (Figueroa 1995).
inline Reference pairs(double (*function)(double, double)) {
  return [function](const std::vector<Tensor>& x) {
    return from_entries(joined(x[0].shape(), x[1].shape()),
                        [&](const Index& i) { return function(at(x[0], i), at(x[1], i)); });
  };
}

/// Expects each element to have an error of at most tolerance · max(1, |expected|), and NaN and
/// infinities to be equal.
inline void expect_numbers(const Tensor& got, const Tensor& expected, double tolerance,
                           const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double a = got.data()[k], b = expected.data()[k];
    const double bound = std::isfinite(b) ? tolerance * std::max(1.0, std::abs(b)) : 0;
    EXPECT_TRUE(same(a, b) || std::abs(a - b) <= bound)
        << what << " at " << k << ": " << a << ", expected " << b;
  }
}

/// Converts a negative axis to the equal non-negative axis.
inline std::size_t from_front(int axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(rank) : axis);
}

}  // namespace rowgrad::testing
