#pragma once

// What a machine's arithmetic gives, as a number to be compared: with another processor, version
// of OpenBLAS or build of rowgrad, sums may be taken in another order, and results differ in their
// last bits.

#include <cstdint>
#include <span>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// A checksum of the bits of linear layers with weights of these parameters' shapes, of GELUs,
/// exponentials and sums over rows, and of all gradients. Takes milliseconds for a toy and some 0.1
/// s for GPT-2's shapes; does not read the values; on one thread. With another fingerprint, a
/// machine trains to other bits; with the same one, bits may still differ in what was not tried.
std::uint64_t arithmetic_fingerprint(std::span<Parameter* const> parameters);

}  // namespace rowgrad
