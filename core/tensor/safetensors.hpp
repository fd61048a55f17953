#pragma once

// Checkpoints as files in the safetensors format, which other frameworks read and write:
//   8 bytes    length of the header, little-endian
//   header     JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}, and
//              {"__metadata__": {"key": "text", …}}; padded with spaces to a multiple of 8
//   data       the values, row-major and little-endian, one tensor after another

#include <filesystem>
#include <functional>
#include <string>

#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// Replaces the file, as write_file does. Tensors are written as F32, or as F64 by the double
/// library, integers as I64, double-precision numbers as F64, and texts as metadata, which begin
/// with {"rowgrad_format": "2", "rowgrad_checksum": "16 digits"}. The checksum covers the whole
/// file. A later version that writes another format changes the number. Throws
/// std::invalid_argument for a name or a text that is not UTF-8, for the name `__metadata__`, texts
/// named `rowgrad_format` or `rowgrad_checksum`, and a header above the format's limit of 100 MB.
void write_safetensors(const std::filesystem::path& path, const StateDict& checkpoint);

/// Reads any file in the format. F16, BF16 and F32 become tensors; F64 becomes double-precision
/// numbers, or tensors in the double library; I8 to I64, U8 to U64 and BOOL become integers;
/// metadata becomes texts. All that the file claims is checked before memory is requested for it:
/// throws std::runtime_error naming file and tensor if it is truncated, inconsistent or has another
/// dtype; if it has a checksum of another content; and for a `rowgrad_format` that this version
/// does not know. (Files of version 0.2.0 and of other frameworks have no checksum.)
StateDict read_safetensors(const std::filesystem::path& path);

/// Returns true for the values to read, by their name and shape.
using WantedValues = std::function<bool(const std::string& name, const Shape& shape)>;

/// Reads the texts and the values for which `wanted` returns true; null wants none. Takes memory
/// only for these and the header. The checksum is not compared.
StateDict read_safetensors(const std::filesystem::path& path, const WantedValues& wanted);

/// Reads only the texts, which are not compared with the checksum.
StateDict read_safetensors_metadata(const std::filesystem::path& path);

}  // namespace rowgrad
