#pragma once

// Golden values: JSON files written by PyTorch, and the closed-form weights that they assume.

#include <cmath>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::testing {

inline nlohmann::json golden(const std::string& name) {
  const std::string path = std::string(ROWGRAD_TEST_DATA) + "/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no golden file " + path);
  return nlohmann::json::parse(file);
}

/// Returns scale * sin(frequency * k + phase) at row-major index k.
inline Tensor wave(const Shape& shape, double frequency, double phase, double scale) {
  Tensor result = empty(shape);
  for (std::size_t k = 0; k < result.size(); ++k)
    result.data()[k] =
        static_cast<real>(scale * std::sin(frequency * static_cast<double>(k) + phase));
  return result;
}

/// Converts a rectangular JSON array of any depth. NaN and infinities, which JSON lacks, are
/// strings.
inline Tensor tensor_from(const nlohmann::json& numbers) {
  Shape shape;
  for (const auto* level = &numbers; level->is_array(); level = &level->front())
    shape.push_back(level->size());
  Tensor result = empty(shape);
  real* next = result.data();
  auto walk = [&next](const auto& self, const nlohmann::json& node) -> void {
    if (node.is_array()) {
      for (const auto& entry : node) self(self, entry);
    } else {
      *next++ = node.is_string() ? std::stof(node.get<std::string>()) : node.get<real>();
    }
  };
  walk(walk, numbers);
  return result;
}

}  // namespace rowgrad::testing
