#pragma once

// StateDict files in the safetensors format, which other frameworks read and write:
//   8 bytes    length of the header, little-endian
//   header     JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}, and
//              {"__metadata__": {"key": "text", …}}; padded with spaces to a multiple of 8
//   data       the values, row-major and little-endian, one tensor after another

#include <filesystem>
#include <functional>
#include <string>

#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// Writes a checkpoint. Replaces the file atomically, like write_file(). Tensors become F32, or F64
/// in the double library. Integers become I64, double-precision numbers F64, strings metadata. The
/// metadata begins with {"rowgrad_format": "2", "rowgrad_checksum": "16 digits"}: the version of
/// the format, and a checksum of the whole file. Throws std::invalid_argument for a name or string
/// that is not UTF-8, the name `__metadata__`, strings named `rowgrad_format` or
/// `rowgrad_checksum`, and a header above the format's limit of 100 MB.
void write_safetensors(const std::filesystem::path& path, const StateDict& state);

/// Reads any file in the format. F16, BF16 and F32 become tensors; F64 becomes double-precision
/// numbers, or tensors in the double library; I8 to I64, U8 to U64 and BOOL become integers;
/// metadata becomes strings. The header is checked before memory is allocated for the tensors.
/// Throws std::runtime_error, naming file and tensor, if the file is truncated or inconsistent, if
/// a dtype or the `rowgrad_format` is unknown, or if the checksum is wrong. (Files of version 0.2.0
/// and of other frameworks have no checksum.)
StateDict read_safetensors(const std::filesystem::path& path);

/// A function that returns true for the values to read, by their name and shape.
using WantedValues = std::function<bool(const std::string& name, const Shape& shape)>;

/// Reads the strings, and the values for which `wanted` returns true (no values if `wanted` is
/// null). Allocates memory only for these and the header. Does not verify the checksum.
StateDict read_safetensors(const std::filesystem::path& path, const WantedValues& wanted);

/// Reads only the strings. Does not verify the checksum.
StateDict read_safetensors_metadata(const std::filesystem::path& path);

}  // namespace rowgrad
