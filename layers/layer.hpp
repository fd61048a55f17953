#pragma once

// The base of layers: named parameters and buffers, training mode, and a state to save. The parts
// of a layer are members that register themselves, each constructed with its owner and its name:
//
//   class Block : public Layer {
//    public:
//     Block(std::size_t width, Random& random) : norm(*this, "norm", width) …
//     Submodule<RmsNorm> norm;                                // a layer
//     Parameter scale{*this, "scale", full({1}, 1)};     // a parameter
//     Buffer table{*this, "table", zeros({8})};          // saved, but not trained
//   };
//
// Dotted names, counts, checkpoints and the summary follow from that. `forward` is not virtual:
// each layer has the signature it needs.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/autograd/row_kind.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

class Buffer;
template <class L>
class Submodule;

struct LoadOptions {        // of Layer::load_state_dict()
  bool strict = true;       // refuse missing and unexpected names
  std::string names = "*";  // patterns of the names, in layer and state, to load
  bool dry_run = false;     // throw what loading would, but load nothing
};

struct LoadReport {                     // of Layer::load_state_dict()
  std::vector<std::string> missing;     // names of the layer that the state lacks
  std::vector<std::string> unexpected;  // names of the state that the layer lacks
};

class NgramHash;

/// What the rows of a table stand for.
struct RowNames {
  RowKind kind = RowKind::kRow;         // the kind of all of them
  std::string noun = {};                // "user"; empty for the word of the kind
  std::vector<std::string> names = {};  // the name of each row; empty if these are its numbers
  const NgramHash* ngrams = nullptr;    // finds the rows of n-grams; null for other tables

  /// The noun, or the word of the kind: "row", "token", "position", "distance" or "n-gram".
  std::string word() const;
};

/// Neither copyable nor movable: layers keep the addresses of their members.
/// `names` are patterns of dotted names in this layer, "blocks.11.*,norm.*" (see NamePatterns); one
/// that matches nothing is a std::invalid_argument.
class Layer : public ParameterOwner {
 public:
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer();

  /// All parameters with such names, including frozen and borrowed ones, each once: for each layer
  /// those that it borrows, then its own, then those of its parts.
  std::vector<Parameter*> parameters(std::string_view names = "*") const;

  /// The same parameters as tapes see them, in the same order: see on_tape().
  std::vector<Parameter*> parameters_on_tape() const;

  /// Returns the parameter that tapes see in place of one of this layer, which may have more rows:
  /// see EmbeddingTable::table().
  virtual Parameter& on_tape(Parameter& parameter) const { return parameter; }

  /// All layers of type L in this one, itself included, by their dotted names; outer layers first.
  template <class L>
  std::vector<std::pair<std::string, L*>> named_layers() {
    std::vector<std::pair<std::string, L*>> found;
    for_each_layer([&](const Layer& layer) {
      if (auto* wanted = dynamic_cast<L*>(const_cast<Layer*>(&layer)))
        found.emplace_back(name_in_this(layer), wanted);
    });
    return found;
  }

  /// The number of values in all parameters, and in the trainable ones, each counted once.
  std::size_t parameter_count() const;
  std::size_t trainable_parameter_count() const;

  /// Training mode, the default, or evaluation mode, for this layer and all its parts. Only Dropout
  /// behaves differently.
  void train() { set_training(true); }
  void eval() { set_training(false); }
  bool training() const { return training_; }

  /// Frozen parameters get no gradient and are not changed by optimizers.
  void freeze(std::string_view names = "*") { set_trainable(names, false); }
  void unfreeze(std::string_view names = "*") { set_trainable(names, true); }

  /// Brings all rows of all tables up to date (see Parameter). Until the next change, several
  /// threads may then run the layer at the same time in evaluation mode, each on its own tape.
  /// (Lookups with max_norm still change rows that are too large.) Throws std::logic_error for
  /// tables in files, which have no such time.
  void apply_deferred_steps() const;

  /// Copies of the parameters and buffers, by dotted name ("token.weight"). A shared parameter is
  /// saved and loaded with the layer that owns it, under its name there. For a table in a file, the
  /// value is the id of its last checkpoint (TableFile::checkpoint_id), and loading restores that.
  StateDict state_dict(std::string_view names = "*") const;

  /// Replaces the values of all parameters and buffers that are in the state, and ignores texts.
  /// Throws std::invalid_argument if a shape differs and, unless strict is false, if names are
  /// missing or unexpected, or for tables in files that have no such mark; then nothing changes. If
  /// writing a table fails after that, those before it have gone back, and nothing else has
  /// changed: open that one again, and load the same state.
  LoadReport load_state_dict(const StateDict& state, const LoadOptions& options = {});

  /// Says what the rows of a table stand for, for callbacks that show rows. Returns nothing for
  /// tables that the layer does not know, as by default. Override it to name the rows of a table.
  virtual std::optional<RowNames> row_names(const Parameter& table) const;

  /// Returns what this layer and its parts say of a table. Each member is set by the outermost
  /// layer that gives it, so a model can name the tokens of an embedding that only knows its kind.
  /// Throws std::invalid_argument if only some rows have names.
  RowNames resolve_row_names(const Parameter& table) const;

  /// A table for printing: the name, shape and number of values of every parameter and buffer. For
  /// a borrowed parameter whose owner is also listed, the owner's name for it replaces the number.
  std::string summary() const;

 protected:
  Layer() = default;

  /// Registers a parameter that another layer owns and names: tied weights. It should outlive this
  /// layer. Throws std::invalid_argument for a name that is taken or has a dot.
  void share(std::string_view name, Parameter& parameter);

  /// Makes a layer that lives elsewhere, and is a part of no other, a part of this one until one of
  /// the two is destroyed: a model that gets another head.
  void share(std::string_view name, Layer& part);

 private:
  friend Buffer;
  friend class EvaluationMode;
  template <class L>
  friend class Submodule;

  template <class Member>
  using Named = std::vector<std::pair<std::string, Member*>>;

  // Throw std::invalid_argument unless `name` is one word without a dot and new in this layer.
  void adopt(std::string_view name, Parameter& parameter) override;
  void adopt(std::string_view name, Buffer& buffer);
  void adopt(std::string_view name, Layer& part);
  void forget(const Parameter& parameter) noexcept override;

  std::string claim(std::string_view name) const;
  void leave_owner() noexcept;
  void set_path(std::string path);
  void set_training(bool training);
  void set_trainable(std::string_view names, bool trainable);
  // The path of a layer in this one without this one's own: "" or "token.".
  std::string path_in_this(const Layer& layer) const { return layer.path_.substr(path_.size()); }
  std::string name_in_this(const Layer& layer) const;
  void for_each_owned(std::string_view names, const auto& on_parameter,
                      const auto& on_buffer) const;
  // Calls visit(layer) for this layer and all layers in it, outer layers first.
  void for_each_layer(const auto& visit) const {
    visit(*this);
    for (const auto& [name, layer] : layers_) layer->for_each_layer(visit);
  }

  std::string path_;  // "" or "token.": the prefix of the names of this layer's parts
  Layer* owner_ = nullptr;
  Named<Parameter> parameters_;
  Named<Parameter> shared_;
  Named<Buffer> buffers_;
  Named<Layer> layers_;
  bool training_ = true;
};

/// A tensor that is saved with its layer but never trained.
class Buffer {
 public:
  Buffer(Layer& owner, std::string_view name, Tensor value)  // a member of owner
      : owner_(&owner), value_(std::move(value)) {
    owner.adopt(name, *this);
  }
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const Tensor& value() const { return value_; }         // the tensor that is saved
  const Shape& shape() const { return value_.shape(); }  // the shape of the value

 private:
  friend Layer;
  Layer* owner_;  // null once the owner is destroyed
  Tensor value_;
};

/// A layer that is a member of another layer: an L, constructed with its owner, its name there, and
/// the arguments of L.
template <class L>
class Submodule : public L {
 public:
  template <class... Arguments>  // constructs an L with `arguments`
  Submodule(Layer& owner, std::string_view name, Arguments&&... arguments)
      : L(std::forward<Arguments>(arguments)...) {
    owner.adopt(name, static_cast<Layer&>(*this));
  }
};

/// Former name of Submodule.
template <class L>
using Part [[deprecated("use Submodule")]] = Submodule<L>;

class EvaluationMode {  // keeps a layer in evaluation mode while this object exists
 public:
  /// Puts a layer and all its parts into evaluation mode. At the end, those that were in training
  /// mode return to it.
  explicit EvaluationMode(Layer& layer) {
    layer.for_each_layer([&](const Layer& each) {
      if (each.training_) were_training_.push_back(const_cast<Layer*>(&each));
    });
    for (Layer* each : were_training_) each->training_ = false;
  }
  ~EvaluationMode() {
    for (Layer* each : were_training_) each->training_ = true;
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<Layer*> were_training_;
};

}  // namespace rowgrad
