#pragma once

// Parts of a layer whose presence or number is known only at run time.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// Constructs and returns a part if `wanted` is true; otherwise returns nullopt.
template <class L, class... Arguments>
std::optional<Submodule<L>> optional_submodule(bool wanted, Layer& owner, std::string_view name,
                                               Arguments&&... arguments) {
  using Made = std::optional<Submodule<L>>;  // constructed in place, as layers cannot move
  if (!wanted) return std::nullopt;
  return Made(std::in_place, owner, name, std::forward<Arguments>(arguments)...);
}

/// Layers of one type, named by index: "0", "1", ….
template <class L>
class LayerList : public Layer {
 public:
  LayerList() = default;

  /// Constructs `count` layers, each with the same arguments.
  template <class... Arguments>
  explicit LayerList(std::size_t count, Arguments&&... arguments) {
    for (std::size_t i = 0; i < count; ++i) add(arguments...);
  }

  /// Appends a new layer and returns it.
  template <class... Arguments>
  L& add(Arguments&&... arguments) {
    return layers_.emplace_back(*this, std::to_string(layers_.size()),
                                std::forward<Arguments>(arguments)...);
  }

  std::size_t size() const { return layers_.size(); }              // returns the number of layers
  L& operator[](std::size_t i) { return layers_[i]; }              // returns layer i < size()
  const L& operator[](std::size_t i) const { return layers_[i]; }  // returns layer i < size()
  auto begin() { return layers_.begin(); }                         // points to the first layer
  auto end() { return layers_.end(); }                             // points past the last layer

 private:
  std::deque<Submodule<L>> layers_;  // a deque keeps addresses valid
};

}  // namespace rowgrad
