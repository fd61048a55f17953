#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/gpt/ngram_memory.hpp>
#include <rowgrad/layers/gpt/transformer.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/layers/layer_list.hpp>
#include <rowgrad/layers/positions.hpp>

namespace rowgrad {

/// The distribution of initial weights.
enum class Initialization {
  /// PyTorch's defaults, drawn in the order of modules: normal(0, 1) for embeddings,
  /// uniform(−1/√inputs, 1/√inputs) for linear layers.
  kPyTorch,
  /// normal(0, 0.02) and biases of 0; normal(0, 0.02 / √(2 · layers)) for the output layers of
  /// attention and feed-forward (Radford et al. 2019, section 2.3).
  kGpt2
};

/// Options of the n-gram memories in front of some blocks: see NgramMemory.
struct GptMemories {
  std::vector<std::size_t> blocks = {};  // blocks with a memory, counted from 0
  NgramHashOptions ngrams = {};          // hash options of all memories
  NgramMemoryOptions memory = {};        // other options of all memories
  /// Borrowed table files, one for each element of `blocks`; empty for tables in memory.
  std::vector<TableFile*> files = {};
};

/// Options of GptModel. The default sizes are the sizes of the smallest GPT-2.
struct GptOptions {
  std::size_t vocabulary = 50257;             // number of tokens
  std::size_t context = 1024;                 // longest input, in tokens
  std::size_t width = 768;                    // elements of each position's vector
  std::size_t heads = 12;                     // number of heads; divides the width
  std::size_t layers = 12;                    // number of blocks
  Positions positions = Positions::kLearned;  // position encoding
  /// Dropout probability of embeddings, attention weights, and results of attention and
  /// feed-forward.
  double dropout = 0;
  bool qkv_bias = false;       // use a bias in query, key and value
  bool bias = true;            // use a bias in norms and all other linear layers, except the head
  bool tie_weights = false;    // use the token table as the head's weight
  Gelu gelu = Gelu::kTanh;     // form of GELU
  double norm_epsilon = 1e-5;  // added to variances in the norms
  Initialization initialization = Initialization::kPyTorch;  // initial values of weights
  /// For Positions::kRotary: the layout of column pairs, and the base of the angles.
  RotaryLayout rotary_layout = RotaryLayout::kHalves;
  double rotary_base = 10000;
  /// For Positions::kT5: the number of buckets. All distances from t5_max_distance on share the
  /// last bucket.
  std::size_t t5_buckets = 32;
  std::size_t t5_max_distance = 128;
  /// For Positions::kShaw: this and all larger distances share a row.
  std::size_t shaw_max_distance = 16;
  /// Memories are initialized last, always with PyTorch's defaults, so all other weights are the
  /// same as in a model without memories.
  GptMemories memories = {};
};

/// GPT-2's architecture (Radford et al. 2019): token embedding, positions, dropout, `layers`
/// transformer blocks, a layer norm, and a linear head without bias. Parts are constructed in this
/// order, so a seed gives the same weights as the same modules in PyTorch.
///
/// A derived class can override before_block(), which training, generation, attention_weights() and
/// memory_gates() all call.
class GptModel : public LanguageModel {
 public:
  /// Draws the initial weights from `random`.
  GptModel(const GptOptions& options, Random& random);
  GptModel(const GptOptions& options, Random&& random) : GptModel(options, random) {}

  /// Accepts ids [..., length] with any number of axes.
  Variable hidden_states(Tape& tape, const Ids& ids) final;

  /// Returns the logits. Final because loss() bypasses it.
  Variable forward(Tape& tape, const Ids& ids) final { return LanguageModel::forward(tape, ids); }
  Linear* output_layer() final { return &head; }
  std::vector<TableLookup> lookups(const Batch& batch) const override;  // returns one per memory
  /// Names the rows of relative positions by distance, such as "16 to 18".
  std::optional<RowNames> row_names(const Parameter& table) const override;
  std::unique_ptr<IncrementalDecoder> decoder() final;
  /// Returns a decoder that slides past the context, where it reads ids one at a time. Requires
  /// relative positions (rotary, ALiBi, T5 or Shaw) or none.
  std::unique_ptr<IncrementalDecoder> sliding_decoder() final;

  /// Returns the attention weights of each block for ids [..., length], in evaluation mode, for
  /// inspection: [batch, heads, length, length], one row of weights for each position.
  std::vector<Tensor> attention_weights(const Ids& ids);

  /// Returns the gate g of each NgramMemory for ids [..., length], in evaluation mode, in the order
  /// of the blocks: [batch, length], from 0 (closed) to 1 (open).
  std::vector<Tensor> memory_gates(const Ids& ids);

  std::size_t context() const final { return options_.context; }
  /// Returns the number of tokens.
  std::size_t vocabulary() const final { return options_.vocabulary; }
  /// Returns the constructor's options.
  const GptOptions& options() const { return options_; }

 protected:
  /// Returns the input of block `block`: by default, the output of the memory in front of the
  /// block, or x if there is none. A position may depend on earlier positions but not on later
  /// ones, and must not depend on how a document is cut into chunks: see DecodeContext. The result
  /// must have the shape of x; otherwise, the model throws std::logic_error.
  virtual Variable before_block(std::size_t block, const Variable& x, const DecodeContext& context);

 private:
  class Decoder;

  void add_memory(std::size_t i, Random& random);
  Variable embed(Tape& tape, const Ids& ids, std::size_t first_position);
  Variable input_of(std::size_t block, const Variable& x, const DecodeContext& context);
  RotaryTable rotary_table(std::size_t first_position, std::size_t positions) const;
  AttentionPositions attention_positions(Tape& tape, std::size_t length);
  // Implements hidden_states(). Appends the attention weights of each block to `weights` and the
  // gates of each memory to `gates` unless these are null.
  Variable through_blocks(Tape& tape, const Ids& ids, std::vector<Tensor>* weights,
                          std::vector<Tensor>* gates);

  GptOptions options_;

 public:
  Submodule<Embedding> token;                              // [vocabulary, width]
  std::optional<Submodule<PositionalEmbedding>> position;  // for Positions::kLearned
  std::optional<Submodule<Sinusoidal>> sinusoidal;         // for Positions::kSinusoidal
  std::optional<Parameter> t5_table;                       // for Positions::kT5: [buckets, heads]
  /// For Positions::kShaw, shared by all layers and heads: [2 · shaw_max_distance + 1, width of a
  /// head]. The model uses only the first shaw_max_distance + 1 rows.
  std::optional<Parameter> shaw_keys;
  std::optional<Parameter> shaw_values;
  std::optional<RotaryTable> rotary;              // for Positions::kRotary
  Submodule<Dropout> dropout;                     // before the first block
  Submodule<LayerList<TransformerBlock>> blocks;  // in order of application
  Submodule<LayerNorm> norm;                      // before the head
  Submodule<Linear> head;                         // [vocabulary, width], without bias
  Submodule<LayerList<NgramMemory>> memories;     // in front of options().memories.blocks
};

/// Applies Initialization::kGpt2 to the parameters of a layer, in order. `layers` is the number of
/// blocks of the whole model. Derived models can call this for their own parts. Vectors that are
/// not named "bias", such as the weights of norms, are not changed. Throws std::invalid_argument
/// for a table in a file.
void initialize_as_gpt2(Layer& layer, std::size_t layers, Random& random);

}  // namespace rowgrad
