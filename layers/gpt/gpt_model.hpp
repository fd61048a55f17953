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

/// What weights start from.
enum class Initialization {
  /// PyTorch's defaults, drawn in the order of its modules: normal(0, 1) for embeddings,
  /// uniform(−1/√inputs, 1/√inputs) for linear layers.
  kPyTorch,
  /// normal(0, 0.02) and biases of 0; normal(0, 0.02 / √(2 · layers)) for the last linear layers of
  /// attention and feed-forward, whose results are added up (Radford et al. 2019, section 2.3).
  kGpt2
};

/// Memories of n-grams in front of some blocks: see NgramMemory.
struct GptMemories {
  std::vector<std::size_t> blocks = {};  // the numbers of the blocks, counted from 0
  NgramHashOptions ngrams = {};          // how all memories find their rows
  NgramMemoryOptions memory = {};        // the options of all memories
  /// The tables, one for each of the blocks, if they are to be in files; borrowed.
  std::vector<TableFile*> files = {};
};

/// Options of GptModel. Sizes are those of the smallest GPT-2, unless they are given.
struct GptOptions {
  std::size_t vocabulary = 50257;             // number of tokens
  std::size_t context = 1024;                 // the longest input
  std::size_t width = 768;                    // numbers at each position
  std::size_t heads = 12;                     // number of heads; divides the width
  std::size_t layers = 12;                    // number of blocks
  Positions positions = Positions::kLearned;  // how a model tells them apart
  /// Dropout of embeddings, attention weights, and results of attention and feed-forward.
  double dropout = 0;
  bool qkv_bias = false;       // whether query, key and value projections have one
  bool bias = true;            // whether all other linear layers but the head, and norms, do
  bool tie_weights = false;    // whether the head's weight is the token table
  Gelu gelu = Gelu::kTanh;     // which form of GELU
  double norm_epsilon = 1e-5;  // added to variances in the norms
  Initialization initialization = Initialization::kPyTorch;  // what weights start from
  /// For Positions::kRotary: which columns of a head are rotated together, and the base.
  RotaryLayout rotary_layout = RotaryLayout::kHalves;
  double rotary_base = 10000;
  /// For Positions::kT5: the buckets, and the distance from which on all share the last one.
  std::size_t t5_buckets = 32;
  std::size_t t5_max_distance = 128;
  /// For Positions::kShaw: the distance from which on all share a row.
  std::size_t shaw_max_distance = 16;
  /// They are made last, so that all else starts as in a model without them, and always as PyTorch
  /// would.
  GptMemories memories = {};
};

/// GPT-2's architecture (Radford et al. 2019): token embedding, positions, dropout, `layers`
/// transformer blocks, a layer norm, and a linear head without bias. Parts are made in that order,
/// so a seed gives the weights that the same modules have in PyTorch.
///
/// A model of one's own that derives from it overrides before_block(), through which training,
/// generation, attention_weights() and memory_gates() all go.
class GptModel : public LanguageModel {
 public:
  /// Draws the initial weights from `random`.
  GptModel(const GptOptions& options, Random& random);
  GptModel(const GptOptions& options, Random&& random) : GptModel(options, random) {}

  /// Takes ids [..., length] of any rank.
  Variable hidden_states(Tape& tape, const Ids& ids) final;

  /// Final, as the loss would not see what overrides it.
  Variable forward(Tape& tape, const Ids& ids) final { return LanguageModel::forward(tape, ids); }
  Linear* output_layer() final { return &head; }
  std::vector<TableLookup> lookups(const Batch& batch) const override;  // of memories
  /// Those of relative positions are named by their distances: "8 to 11".
  std::optional<RowNames> row_names(const Parameter& table) const override;
  std::unique_ptr<IncrementalDecoder> decoder() final;
  /// For positions that count distances (rotary, ALiBi, T5's and Shaw's), and for none. Reads ids
  /// past the context one at a time.
  std::unique_ptr<IncrementalDecoder> sliding_decoder() final;

  /// The attention weights of each block for ids [..., length], in evaluation mode, to be looked
  /// at: [batch, heads, length, length], a row of weights for each position.
  std::vector<Tensor> attention_weights(const Ids& ids);

  /// How far each memory is open for ids [..., length], in evaluation mode, that in front of the
  /// first block first: [batch, length], from 0 to 1. See NgramMemory's g.
  std::vector<Tensor> memory_gates(const Ids& ids);

  std::size_t context() const final { return options_.context; }
  std::size_t vocabulary() const final { return options_.vocabulary; }  // the number of tokens
  const GptOptions& options() const { return options_; }                // the options as given

 protected:
  /// What block `block` reads instead of x: what a memory in front of it makes of x, or x itself,
  /// unless a derived class puts something else there. A position may depend on earlier ones, but
  /// on no later one, and must be the same whether a text is given whole or piece by piece: see
  /// DecodeContext. The shape is that of x, or std::logic_error is thrown.
  virtual Variable before_block(std::size_t block, const Variable& x, const DecodeContext& text);

 private:
  class Reader;

  void add_memory(std::size_t i, Random& random);
  Variable embed(Tape& tape, const Ids& ids, std::size_t first_position);
  Variable input_of(std::size_t block, const Variable& x, const DecodeContext& text);
  RotaryTable rotary_table(std::size_t first_position, std::size_t positions) const;
  AttentionPositions attention_positions(Tape& tape, std::size_t length);
  // hidden_states(); adds the attention weights of each block to `weights` and the gates of each
  // memory to `gates` unless these are null.
  Variable through_blocks(Tape& tape, const Ids& ids, std::vector<Tensor>* weights,
                          std::vector<Tensor>* gates);

  GptOptions options_;

 public:
  Submodule<Embedding> token;                              // [vocabulary, width]
  std::optional<Submodule<PositionalEmbedding>> position;  // for Positions::kLearned
  std::optional<Submodule<Sinusoidal>> sinusoidal;         // for Positions::kSinusoidal
  std::optional<Parameter> t5_table;                       // for Positions::kT5: [buckets, heads]
  /// For Positions::kShaw, shared by all layers and heads: [2 · shaw_max_distance + 1, width of a
  /// head], of which a causal model reaches the first shaw_max_distance + 1 rows.
  std::optional<Parameter> shaw_keys;
  std::optional<Parameter> shaw_values;
  std::optional<RotaryTable> rotary;              // for Positions::kRotary
  Submodule<Dropout> dropout;                     // applied to what goes into the first block
  Submodule<LayerList<TransformerBlock>> blocks;  // in the order in which they are passed
  Submodule<LayerNorm> norm;                      // before the head
  Submodule<Linear> head;                         // [vocabulary, width], without bias
  Submodule<LayerList<NgramMemory>> memories;     // in front of options().memories.blocks
};

/// Initialization::kGpt2 for the parameters of any layer, drawn in their order; `layers` is the
/// number of blocks of the whole model. A model that derives from GptModel calls it for its own
/// parts. Vectors that are not named "bias", such as the weights of norms, stay as they are. A
/// table in a file is refused: std::invalid_argument.
void initialize_as_gpt2(Layer& layer, std::size_t layers, Random& random);

}  // namespace rowgrad
