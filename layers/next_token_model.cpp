#include <rowgrad/layers/next_token_model.hpp>

namespace rowgrad {
namespace {

// The look-back's width, then those of the hidden layers: what the head reads stands last.
std::vector<std::size_t> hidden_widths(const NextTokenOptions& options) {
  std::vector<std::size_t> widths{
      element_count({options.look_back, options.width}, "NextTokenModel")};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  return widths;
}

const NextTokenOptions& checked(const NextTokenOptions& options) {
  check_argument(options.vocabulary > 0 && options.context > 0 && options.width > 0,
                 "NextTokenModel: vocabulary ", options.vocabulary, ", context ", options.context,
                 " and width ", options.width, " must be above 0");
  const std::size_t read_by_head = hidden_widths(options).back();
  check_argument(!options.tie_weights || read_by_head == options.width,
                 "NextTokenModel: with tied weights the head must read the embedding's width of ",
                 options.width, ", but it reads ", read_by_head, ": make the last hidden layer ",
                 options.width, " wide, or do not tie the weights");
  return options;
}

std::optional<PositionalEmbedding> make_position(const NextTokenOptions& options, Random& random) {
  using Made = std::optional<PositionalEmbedding>;
  if (options.positions != Positions::kLearned) return std::nullopt;
  const PositionalEmbeddingOptions gradients{.dense_gradient = options.dense_gradients};
  return Made(std::in_place, options.context, options.width, random, gradients);
}

std::optional<Sinusoidal> make_sinusoidal(const NextTokenOptions& options) {
  using Made = std::optional<Sinusoidal>;
  if (options.positions != Positions::kSinusoidal) return std::nullopt;
  return Made(std::in_place, options.context, options.width);
}

std::optional<Mlp> make_hidden(const NextTokenOptions& options, Random& random) {
  using Made = std::optional<Mlp>;
  if (options.hidden.empty()) return std::nullopt;
  const MlpOptions mlp{.activate_last = true, .dropout = options.dropout};
  return Made(std::in_place, hidden_widths(options), random, mlp);
}

Linear make_head(const NextTokenOptions& options, Parameter& table, Random& random) {
  if (options.tie_weights) return Linear(table, random);
  return Linear(hidden_widths(options).back(), options.vocabulary, random);
}

}  // namespace

NextTokenModel::NextTokenModel(const NextTokenOptions& options, Random& random)
    : options_(checked(options)),
      token(options.vocabulary, options.width, random, {.dense_gradient = options.dense_gradients}),
      position(make_position(options, random)),
      sinusoidal(make_sinusoidal(options)),
      sinusoidal_dropout(options.dropout),
      look_back(options.look_back),
      hidden(make_hidden(options, random)),
      head(make_head(options, token.weight(), random)) {
  register_layer("token", token);
  if (position) register_layer("position", *position);
  if (sinusoidal) register_layer("sinusoidal", *sinusoidal);
  register_layer("sinusoidal_dropout", sinusoidal_dropout);
  register_layer("look_back", look_back);
  if (hidden) register_layer("hidden", *hidden);
  register_layer("head", head);
}

Variable NextTokenModel::before_head(Tape& tape, const Ids& ids) {
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
  x = look_back.forward(x);
  if (hidden) x = hidden->forward(x);
  return x;
}

Variable NextTokenModel::forward(Tape& tape, const Ids& ids) {
  return head.forward(before_head(tape, ids));
}

Variable NextTokenModel::loss(Tape& tape, const Ids& ids, const Ids& targets,
                              const CrossEntropyOptions& options) {
  return head.cross_entropy(before_head(tape, ids), targets, options);
}

}  // namespace rowgrad
