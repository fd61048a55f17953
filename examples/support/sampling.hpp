#pragma once

#include <cstddef>

#include <rowgrad/layers/next_token_model.hpp>

namespace rowgrad {

/// `count` ids that continue `prompt`, each drawn from softmax(logits / temperature) given the last
/// `context` ids; temperature 0 takes the likeliest. Fewer if it is interrupted (program.hpp). The
/// model is used in evaluation mode. Throws std::invalid_argument for an empty prompt or a
/// temperature that is negative or not finite.
Ids sample(NextTokenModel& model, const Ids& prompt, std::size_t count, double temperature,
           Random& random);

}  // namespace rowgrad
