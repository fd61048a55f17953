#pragma once

// Named tensors and texts in one file, in the safetensors format, which other frameworks read:
//   8 bytes    length of the header, little-endian
//   header     JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}, and
//              {"__metadata__": {"key": "text", …}}; padded with blanks to a multiple of 8
//   data       the numbers, row-major, little-endian, tensor after tensor

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// A name and a tensor to write, borrowed for the length of the call; what Layer::state() lists.
using NamedTensor = std::pair<std::string, const Tensor*>;

using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;
  Metadata metadata;
};

/// Replaces the file as write_file does, the tensors in the order given, as F32, or F64 in the
/// double build. Throws std::invalid_argument for a name given twice, a tensor that is null, and
/// names or texts that are not UTF-8; std::runtime_error where the file cannot be written.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata = {});

/// Reads F32 and F64 tensors, converting to `real` where they differ. Everything in the file is
/// checked before memory is asked for; a file that is truncated, foreign or contradicts itself is
/// a std::runtime_error that names the file and what is wrong.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

}  // namespace rowgrad
