#pragma once

#include <string>

#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad::testing {

/// Returns a state dict as bytes, equal only for equal names, types, shapes and bits. NaN equals
/// itself, and -0 differs from 0.
inline std::string bits_of(const StateDict& state) {
  std::string all;
  const auto add = [&](const std::string& kind, const Shape& shape, const auto* numbers,
                       std::size_t count) {
    all += concat(kind, bracketed(shape));
    all.append(reinterpret_cast<const char*>(numbers), count * sizeof(*numbers));
  };
  for (const std::string& name : state.names()) {
    all += '\n' + name + ' ';
    const StateDict::Value& value = state.at(name);
    if (const auto* text = std::get_if<std::string>(&value)) {
      all += "text " + *text;
    } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
      add("tensor ", tensor->shape(), tensor->data(), tensor->size());
    } else if (const auto* whole = std::get_if<StateDict::Integers>(&value)) {
      add("integers ", whole->shape, whole->values.data(), whole->values.size());
    } else {
      const auto& doubles = std::get<StateDict::Doubles>(value);
      add("doubles ", doubles.shape, doubles.values.data(), doubles.values.size());
    }
  }
  return all;
}

inline std::string bits_of(const Tensor& tensor) {
  StateDict state;
  state.put("tensor", tensor);
  return bits_of(state);
}

/// Returns a copy in which `name` has another value.
inline StateDict with(StateDict state, const std::string& name, auto value) {
  state.erase(name);
  state.put(name, std::move(value));
  return state;
}

inline StateDict without(StateDict state, const std::string& name) {
  state.erase(name);
  return state;
}

}  // namespace rowgrad::testing
