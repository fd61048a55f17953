#pragma once

// What every layer has: named parameters and buffers, training mode, a state to save. A layer holds
// its parts as members and registers them in its constructor; names, counts, checkpoints and the
// summary follow. `forward` is not virtual: each layer has the signature it needs.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// Base of all layers. Neither copied nor moved: the registry holds the addresses of members.
class Layer {
 public:
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

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

  /// Parameters and buffers by dotted name ("token.weight"). The tensors belong to the layer: what
  /// it borrows is saved and loaded with its owner, under the owner's name, and so not at all by a
  /// borrower that stands alone. Tables that are owed updates are copies of this moment, all others
  /// change with the layer: ask again after an optimizer's step.
  std::vector<std::pair<std::string, const Tensor*>> state() const;

  /// Replaces all of them. Throws std::invalid_argument if a name is missing or unknown or a shape
  /// differs, and then changes nothing.
  void load_state(const std::map<std::string, Tensor>& state);

  /// A table to print: name, shape and count of every parameter and buffer; for one that is
  /// borrowed from another layer in here, whose it is instead of the count.
  std::string summary() const;

 protected:
  Layer() = default;

  /// `name` is one word without a dot, used once in this layer, else std::invalid_argument. What is
  /// registered must be a member, or be owned by one. Also throws std::invalid_argument for a layer
  /// that contains this one, or that is registered already, here or in another layer.
  void register_parameter(std::string_view name, Parameter& parameter);
  void register_buffer(std::string_view name, Tensor& buffer);
  void register_layer(std::string_view name, Layer& layer);

  /// A parameter that another layer owns and names, and that must outlive this one: tied weights.
  void register_shared(std::string_view name, Parameter& parameter);

 private:
  template <class Part>
  using Named = std::vector<std::pair<std::string, Part*>>;

  std::string claim(std::string_view name);
  void set_path(std::string path);
  void set_training(bool training);
  void set_trainable(bool trainable);
  template <class Visit>
  void visit(const Visit& visit_layer) const;

  std::string path_;  // "" or "token.", in front of the names of this layer's parts
  Named<Parameter> parameters_;
  Named<Parameter> shared_;
  Named<Tensor> buffers_;
  Named<Layer> layers_;
  bool training_ = true;
};

}  // namespace rowgrad
