#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

void Parameter::assign(Tensor value) {
  check_argument(value.shape() == shape(), name_, ": the new value has shape ",
                 bracketed(value.shape()), ", expected ", bracketed(shape()));
  value_ = std::move(value);
  ++version_;
}

void Parameter::add_gradient(Gradient gradient) {
  check_argument(gradient.is_none() || gradient.shape() == shape(), name_, ": a gradient of shape ",
                 bracketed(gradient.is_none() ? Shape() : gradient.shape()),
                 " was given, expected ", bracketed(shape()));
  gradient_.add(std::move(gradient));
}

}  // namespace rowgrad
