#pragma once

// The base class of layers: named parameters and buffers, training mode, and the state to save. The
// members of a layer register themselves; each is constructed with its owner and its name:
//
//   class Block : public Layer {
//    public:
//     Block(std::size_t width, Random& random) : norm(*this, "norm", width) …
//     Submodule<RmsNorm> norm;                       // a layer
//     Parameter scale{*this, "scale", full({1}, 1)};     // a parameter
//     Buffer table{*this, "table", zeros({8})};          // saved, but not trained
//   };
//
// Dotted names, parameter counts, checkpoints and the summary follow from the members. `forward` is
// not virtual: each layer has the signature it needs.

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
class NgramHash;
template <class L>
class Submodule;

struct LoadOptions {        // options of Layer::load_state_dict()
  bool strict = true;       // throw if names are missing or unexpected
  std::string names = "*";  // load only names that match these patterns
  bool dry_run = false;     // check everything, but change nothing
};

struct LoadReport {                     // result of Layer::load_state_dict()
  std::vector<std::string> missing;     // names that only the layer has
  std::vector<std::string> unexpected;  // names of non-strings that only the state dict has
};

/// The meaning of a table's rows, for reports.
struct RowNames {
  RowKind kind = RowKind::kRow;         // the kind of all rows
  std::string noun = {};                // such as "user"; empty: the word for `kind`
  std::vector<std::string> names = {};  // name of each row; empty: its index
  const NgramHash* ngrams = nullptr;    // finds the rows of n-grams; null for other tables

  /// Returns `noun` or, if it is empty, "row", "token", "position", "distance" or "n-gram".
  std::string word() const;
};

/// Base class of layers. Neither copyable nor movable, because layers keep the addresses of their
/// members. Arguments called `names` are patterns of dotted names in this layer, such as
/// "blocks.11.*,norm.*" (see NamePatterns). A pattern without a match throws std::invalid_argument.
class Layer : public ParameterOwner {
 public:
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer();

  /// Returns the parameters whose names match, each once, including frozen and borrowed ones.
  /// Order: the borrowed parameters of a layer, its own, then the parameters of its parts.
  std::vector<Parameter*> parameters(std::string_view names = "*") const;

  /// Returns on_tape() of each parameter, in the order of parameters().
  std::vector<Parameter*> parameters_on_tape() const;

  /// Returns the parameter that tapes see in place of `parameter`, which this layer owns. For a
  /// shard, the result has more rows: see EmbeddingTable::table().
  virtual Parameter& on_tape(Parameter& parameter) const { return parameter; }

  /// Returns the layers of type L, including this one, with dotted names, outer layers first.
  template <class L>
  std::vector<std::pair<std::string, L*>> named_layers() {
    std::vector<std::pair<std::string, L*>> found;
    for_each_layer([&](const Layer& layer) {
      if (auto* wanted = dynamic_cast<L*>(const_cast<Layer*>(&layer)))
        found.emplace_back(name_in_this(layer), wanted);
    });
    return found;
  }

  std::size_t parameter_count() const;            // counts elements; shared parameters count once
  std::size_t trainable_parameter_count() const;  // counts elements of trainable parameters

  /// Puts this layer and all its parts into training mode (the default) or evaluation mode. The
  /// mode affects only dropout.
  void train() { set_training(true); }
  void eval() { set_training(false); }
  bool training() const { return training_; }

  /// Freezes or unfreezes parameters. Frozen parameters get no gradient and no updates.
  void freeze(std::string_view names = "*") { set_trainable(names, false); }
  void unfreeze(std::string_view names = "*") { set_trainable(names, true); }

  /// Brings all rows of all tables up to date. Until the next change, several threads may then run
  /// the layer at once in evaluation mode, each on its own tape, unless max_norm makes lookups
  /// change rows. Throws std::logic_error if a table is in a file.
  void apply_deferred_steps() const;

  /// Returns copies of the parameters and buffers, by dotted name ("token.weight"). A shared
  /// parameter is saved and loaded only by its owner, under the owner's name for it. A table file
  /// is saved as the id of its last checkpoint (TableFile::checkpoint_id). Loading restores that
  /// checkpoint.
  StateDict state_dict(std::string_view names = "*") const;

  /// Replaces the values of all parameters and buffers that `state` contains. Strings with unknown
  /// names are ignored. Throws std::invalid_argument, and changes nothing, if a shape differs, if a
  /// table file lacks the saved checkpoint or, if strict, if names are missing or unexpected. If
  /// restoring a table file then fails, earlier table files stay restored, and nothing else
  /// changes. To recover, open the failed file again and load the same state.
  LoadReport load_state_dict(const StateDict& state, const LoadOptions& options = {});

  /// Describes the rows of `table`, for reports. The default returns nullopt.
  virtual std::optional<RowNames> row_names(const Parameter& table) const;

  /// Combines row_names() of this layer and its parts. Each field comes from the outermost layer
  /// that sets it, so a model can name the tokens of an embedding that only sets the kind. Throws
  /// std::invalid_argument if there are names, but not one for each row.
  RowNames resolve_row_names(const Parameter& table) const;

  /// Returns a printable table of names and shapes, with the sizes of parameters. For a borrowed
  /// parameter whose owner is also listed, the owner's name for it replaces the size.
  std::string summary() const;

 protected:
  Layer() = default;

  /// Registers a parameter that another layer owns and names, such as a tied weight. The parameter
  /// should outlive this layer. Throws std::invalid_argument if `name` is empty, dotted or taken.
  void share(std::string_view name, Parameter& parameter);

  /// Makes `part`, which is not a member, a part until either layer is destroyed. `part` must not
  /// belong to another layer. Used to give a model another head.
  void share(std::string_view name, Layer& part);

 private:
  friend Buffer;
  friend class EvaluationMode;
  template <class L>
  friend class Submodule;

  template <class Member>
  using Named = std::vector<std::pair<std::string, Member*>>;

  // adopt() throws std::invalid_argument if `name` is empty, contains a dot or is taken.
  void adopt(std::string_view name, Parameter& parameter) override;
  void adopt(std::string_view name, Buffer& buffer);
  void adopt(std::string_view name, Layer& part);
  void forget(const Parameter& parameter) noexcept override;

  std::string claim(std::string_view name) const;
  void leave_owner() noexcept;
  void set_path(std::string path);
  void set_training(bool training);
  void set_trainable(std::string_view names, bool trainable);
  // Returns the path of `layer` relative to this layer: "" or "token.".
  std::string path_in_this(const Layer& layer) const { return layer.path_.substr(path_.size()); }
  std::string name_in_this(const Layer& layer) const;
  void for_each_owned(std::string_view names, const auto& on_parameter,
                      const auto& on_buffer) const;
  // Calls visit(layer) for this layer and all layers in it, outer layers first.
  void for_each_layer(const auto& visit) const {
    visit(*this);
    for (const auto& [name, layer] : layers_) layer->for_each_layer(visit);
  }

  std::string path_;  // "" or "token.": prefix of the names in this layer
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
  Buffer(Layer& owner, std::string_view name, Tensor value)  // registers itself with its owner
      : owner_(&owner), value_(std::move(value)) {
    owner.adopt(name, *this);
  }
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const Tensor& value() const { return value_; }         // returns the saved tensor
  const Shape& shape() const { return value_.shape(); }  // returns value().shape()

 private:
  friend Layer;
  Layer* owner_;  // null once the owner is destroyed
  Tensor value_;
};

/// A layer of type L that is a member of another layer.
template <class L>
class Submodule : public L {
 public:
  template <class... Arguments>  // constructs an L from `arguments`
  Submodule(Layer& owner, std::string_view name, Arguments&&... arguments)
      : L(std::forward<Arguments>(arguments)...) {
    owner.adopt(name, static_cast<Layer&>(*this));
  }
};

/// Former name of Submodule.
template <class L>
using Part [[deprecated("use Submodule")]] = Submodule<L>;

/// A scope in which a layer is in evaluation mode.
class EvaluationMode {
 public:
  /// Puts `layer` and all its parts into evaluation mode. The destructor restores their modes.
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
