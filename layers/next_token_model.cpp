#include <rowgrad/layers/layer_list.hpp>
#include <rowgrad/layers/next_token_model.hpp>

namespace rowgrad {
namespace {

// Returns the width after concat_previous, then the widths of the hidden layers. The last element
// is the width of the head's input.
std::vector<std::size_t> hidden_widths(const NextTokenOptions& options) {
  std::vector<std::size_t> widths{element_count({options.window, options.width}, "NextTokenModel")};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  return widths;
}

const NextTokenOptions& checked(const NextTokenOptions& options) {
  check_argument(options.vocabulary > 0 && options.context > 0 && options.width > 0,
                 "NextTokenModel: vocabulary is ", options.vocabulary, ", context is ",
                 options.context, " and width is ", options.width, ", expected all above 0");
  check_argument(options.positions == Positions::kNone ||
                     options.positions == Positions::kLearned ||
                     options.positions == Positions::kSinusoidal,
                 "NextTokenModel: got positions for attention, expected kNone, "
                 "kLearned or kSinusoidal");
  const std::size_t head_inputs = hidden_widths(options).back();
  check_argument(!options.tie_weights || head_inputs == options.width,
                 "NextTokenModel: the head has ", head_inputs, " inputs, expected the ",
                 options.width, " of the tied token table: make the last hidden layer ",
                 options.width, " wide, or do not tie the weights");
  return options;
}

Submodule<Linear> make_head(Layer& owner, const NextTokenOptions& options, Parameter& table,
                            Random& random) {
  const LinearOptions linear{.bias = options.head_bias};
  if (options.tie_weights) return Submodule<Linear>(owner, "head", table, random, linear);
  return Submodule<Linear>(owner, "head", hidden_widths(options).back(), options.vocabulary, random,
                           linear);
}

}  // namespace

NextTokenModel::NextTokenModel(const NextTokenOptions& options, Random& random)
    : options_(checked(options)),
      token(*this, "token", options.vocabulary, options.width, random,
            EmbeddingOptions{.dense_gradient = options.dense_gradients, .kind = RowKind::kToken}),
      position(optional_submodule<PositionalEmbedding>(
          options.positions == Positions::kLearned, *this, "position", options.context,
          options.width, random, EmbeddingOptions{.dense_gradient = options.dense_gradients})),
      sinusoidal(optional_submodule<Sinusoidal>(options.positions == Positions::kSinusoidal, *this,
                                                "sinusoidal", options.context, options.width)),
      sinusoidal_dropout(*this, "sinusoidal_dropout", options.dropout),
      concat_previous(*this, "concat_previous", options.window),
      hidden(optional_submodule<Mlp>(
          !options.hidden.empty(), *this, "hidden", hidden_widths(options), random,
          MlpOptions{.activate_last = true, .dropout = options.dropout})),
      head(make_head(*this, options, token.weight, random)) {}

Variable NextTokenModel::transform_embeddings(const Variable& x, const Ids&) { return x; }

Variable NextTokenModel::hidden_states(Tape& tape, const Ids& ids) {
  check_argument(ids.dimension() >= 1 && ids.shape().back() <= options_.context,
                 "NextTokenModel: ids have shape ", bracketed(ids.shape()),
                 ", expected [..., length] with a length of at most the context, ",
                 options_.context);
  const std::size_t length = ids.shape().back();
  Variable x =
      position ? token.forward(tape, ids, position->rows(tape, length))
      : sinusoidal
          ? sinusoidal_dropout.forward(token.forward(tape, ids, sinusoidal->rows(tape, length)))
          : token.forward(tape, ids);
  x = concat_previous.forward(transform_embeddings(x, ids));
  if (hidden) x = hidden->forward(x);
  return x;
}

}  // namespace rowgrad
