#pragma once

// What every layer has: named parameters and buffers, training mode, a state to save. What a layer
// holds are members that register themselves, each made with its owner and its name:
//
//   class Block : public Layer {
//    public:
//     Block(std::size_t width, Random& random) : norm(*this, "norm", width) …
//     Part<RmsNorm> norm;                                // a layer
//     Parameter scale{*this, "scale", full({1}, 1)};     // a parameter
//     Buffer table{*this, "table", zeros({8})};          // saved, but not trained
//   };
//
// Names, counts, checkpoints and the summary follow. `forward` is not virtual: each layer has the
// signature it needs.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

class Buffer;
template <class L>
class Part;

struct LoadOptions {
  bool strict = true;  // refuse a state with names missing or unexpected
};

/// The names that a state lacked, and those that the layer does not have.
struct LoadReport {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

/// Base of all layers. Neither copied nor moved: the registry holds the addresses of members.
class Layer : public ParameterOwner {
 public:
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer();

  /// All parameters, frozen and borrowed ones too, each once, in the order in which they were
  /// registered.
  std::vector<Parameter*> parameters() const;

  /// How many numbers they hold, each counted once.
  std::size_t parameter_count() const;
  std::size_t trainable_parameter_count() const;

  /// Training mode (the start) or evaluation mode, for this layer and all in it. Dropout is the
  /// layer that cares.
  void train() { set_training(true); }
  void eval() { set_training(false); }
  bool training() const { return training_; }

  /// Frozen parameters get no gradient and are not changed by optimizers.
  void freeze() { set_trainable(false); }
  void unfreeze() { set_trainable(true); }

  /// Brings every row of every table up to date (see Parameter). Until the next change, any number
  /// of threads may then run the layer at once in evaluation mode, each on a tape of its own. (A
  /// lookup with max_norm changes rows that are too large even then.)
  void settle() const;

  /// Copies of the parameters and buffers, by dotted name ("token.weight"). A shared parameter is
  /// saved and loaded with the layer that owns it, under the owner's name.
  Checkpoint state_dict() const;

  /// Replaces the numbers of all parameters and buffers that the state has. Texts in it are passed
  /// over. Throws std::invalid_argument for a shape that differs and, unless strict is false, for
  /// missing or unexpected names, of which it lists the first few; then nothing changes.
  LoadReport load_state_dict(const Checkpoint& state, const LoadOptions& options = {});

  /// A table to print: name, shape and count of every parameter and buffer; for one that is
  /// borrowed from another layer in here, whose it is instead of the count.
  std::string summary() const;

 protected:
  Layer() = default;

  /// A parameter that another layer owns and names: tied weights. It should outlive this layer.
  /// Throws std::invalid_argument for a name that is taken or has a dot.
  void share(std::string_view name, Parameter& parameter);

 private:
  friend Buffer;
  template <class L>
  friend class Part;

  template <class Member>
  using Named = std::vector<std::pair<std::string, Member*>>;

  // `name` is one word without a dot, used once in this layer, else std::invalid_argument.
  void adopt(std::string_view name, Parameter& parameter) override;
  void adopt(std::string_view name, Buffer& buffer);
  void adopt(std::string_view name, Layer& part);
  void forget(const Parameter& parameter) noexcept override;

  std::string claim(std::string_view name) const;
  void set_path(std::string path);
  void set_training(bool training);
  void set_trainable(bool trainable);
  template <class Visit>
  void visit(const Visit& visit_layer) const;

  std::string path_;  // "" or "token.", in front of the names of this layer's parts
  Layer* owner_ = nullptr;
  Named<Parameter> parameters_;
  Named<Parameter> shared_;
  Named<Buffer> buffers_;
  Named<Layer> layers_;
  bool training_ = true;
};

/// A tensor that is saved with its layer and never trained.
class Buffer {
 public:
  Buffer(Layer& owner, std::string_view name, Tensor value)
      : owner_(&owner), value_(std::move(value)) {
    owner.adopt(name, *this);
  }
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }

 private:
  friend Layer;
  Layer* owner_;  // null once it is gone
  Tensor value_;
};

/// A layer that is a member of another: an L that is made with its owner, its name there, and what
/// an L is made with.
template <class L>
class Part : public L {
 public:
  template <class... Arguments>
  Part(Layer& owner, std::string_view name, Arguments&&... arguments)
      : L(std::forward<Arguments>(arguments)...) {
    owner.adopt(name, static_cast<Layer&>(*this));
  }
};

/// Layers of one kind, as many as a run-time number says, named by their place: "0", "1", ….
template <class L>
class LayerList : public Layer {
 public:
  /// `count` layers, each made with the same arguments, one after another.
  template <class... Arguments>
  explicit LayerList(std::size_t count = 0, Arguments&&... arguments) {
    for (std::size_t i = 0; i < count; ++i) add(arguments...);
  }

  /// Makes one more at the end and returns it.
  template <class... Arguments>
  L& add(Arguments&&... arguments) {
    return layers_.emplace_back(*this, std::to_string(layers_.size()),
                                std::forward<Arguments>(arguments)...);
  }

  std::size_t size() const { return layers_.size(); }
  L& operator[](std::size_t i) { return layers_[i]; }
  auto begin() { return layers_.begin(); }
  auto end() { return layers_.end(); }

 private:
  std::deque<Part<L>> layers_;  // which stay where they are
};

}  // namespace rowgrad
