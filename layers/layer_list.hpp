#pragma once

// Parts that are there or not, or as many as wanted, which is known at run time.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// A part that exists only if it is wanted, for a member std::optional<Submodule<L>>.
template <class L, class... Arguments>
std::optional<Submodule<L>> optional_submodule(bool wanted, Layer& owner, std::string_view name,
                                               Arguments&&... arguments) {
  using Made = std::optional<Submodule<L>>;  // constructed in its place, as layers do not move
  if (!wanted) return std::nullopt;
  return Made(std::in_place, owner, name, std::forward<Arguments>(arguments)...);
}

/// Layers of one type, their number known only at run time, named by position: "0", "1", ….
template <class L>
class LayerList : public Layer {
 public:
  LayerList() = default;

  /// Makes `count` layers, each with the same arguments.
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

  std::size_t size() const { return layers_.size(); }              // number of layers
  L& operator[](std::size_t i) { return layers_[i]; }              // layer i, below size()
  const L& operator[](std::size_t i) const { return layers_[i]; }  // the same
  auto begin() { return layers_.begin(); }                         // the first layer
  auto end() { return layers_.end(); }                             // after the last

 private:
  std::deque<Submodule<L>> layers_;  // a deque, so that addresses stay valid
};

}  // namespace rowgrad
