#pragma once

// Checkpoints as files in the safetensors format, which other frameworks read and write:
//   8 bytes    length of the header, little-endian
//   header     JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}, and
//              {"__metadata__": {"key": "text", …}}; padded with blanks to a multiple of 8
//   data       the numbers, row-major, little-endian, tensor after tensor

#include <filesystem>

#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

/// Replaces the file, as write_file does. Tensors are written as F32, or F64 by the double library,
/// whole numbers as I64, numbers in double precision as F64, texts as metadata. Throws
/// std::invalid_argument for a name or a text that is not UTF-8, the name `__metadata__`, and more
/// names than the format's header of 100 MB holds.
void write_safetensors(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Reads any file in the format. F16, BF16 and F32 become tensors; F64 numbers in double precision,
/// or tensors in the double library; I8 to I64, U8 to U64 and BOOL whole numbers; metadata texts.
/// Everything that the file says is checked before memory is asked for: one that is truncated, has
/// another dtype or contradicts itself is a std::runtime_error that names the file and the tensor.
Checkpoint read_safetensors(const std::filesystem::path& path);

}  // namespace rowgrad
