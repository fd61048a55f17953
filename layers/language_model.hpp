#pragma once

// What trains on a text and continues one.

#include <cstddef>
#include <functional>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/ops/cross_entropy.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// Any model that gives each next token of a text a probability.
class LanguageModel : public Layer {
 public:
  /// ids [..., length], length ≤ context → logits [..., length, vocabulary]. Throws
  /// std::invalid_argument for a longer input or an id outside the vocabulary.
  virtual Variable forward(Tape& tape, const Ids& ids) = 0;

  /// cross_entropy(forward(tape, ids), targets, options): targets have the shape of ids. A model
  /// may compute it in a better way.
  virtual Variable loss(Tape& tape, const Ids& ids, const Ids& targets,
                        const CrossEntropyOptions& options = {});

  virtual std::size_t context() const = 0;  // the longest input
  virtual std::size_t vocabulary() const = 0;
};

/// Mean cross-entropy, in nats a token, over everything that the loader gives, in evaluation mode.
/// Nothing if `goes_on`, which is asked after each batch, said no.
std::optional<double> evaluate(LanguageModel& model, DataLoader& loader,
                               const std::function<bool()>& goes_on = {});

struct GenerateOptions {
  /// How many tokens to add.
  std::size_t count = 100;
  /// By which logits are divided; 0 takes the likeliest token.
  double temperature = 1;
  /// How many of the likeliest tokens are drawn from; 0 for all.
  std::size_t top_k = 0;
  /// Called for each new token; when it returns false, that was the last one.
  std::function<bool(std::int32_t)> on_token = {};
};

/// Ids that continue `prompt`, each drawn given the last `context` ids, in evaluation mode: those
/// that torch.multinomial would draw from softmax(logits / temperature). Throws
/// std::invalid_argument for an empty prompt and a temperature that is negative or not finite.
Ids generate(LanguageModel& model, const Ids& prompt, const GenerateOptions& options,
             Random& random);

/// One index, drawn with probabilities softmax(logits / temperature) of the top_k largest. Throws
/// std::invalid_argument for no logits, such a temperature, and logits that are NaN or all −∞.
std::size_t draw_token(std::span<const real> logits, double temperature, std::size_t top_k,
                       Random& random);

}  // namespace rowgrad
