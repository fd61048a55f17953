// Fuzzes safetensors files: a file that can be read is written and read again, and must have the
// same bits. An input is a byte with the number of data bytes, followed by the header; or F,
// followed by a whole file.

#include <cstring>
#include <unistd.h>

#include "tests/fuzz/fuzzing.hpp"
#include "tests/support/checkpoints.hpp"
#include <rowgrad/core/tensor/safetensors.hpp>

namespace rowgrad::fuzzing {
namespace {

std::string file_of(std::string_view input) {
  if (input.empty() || input.front() == 'F') return std::string(input.substr(!input.empty()));
  const std::uint64_t length = input.size() - 1;
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += input.substr(1);
  const auto data_bytes = static_cast<unsigned char>(input.front());
  for (int i = 0; i < data_bytes; ++i) file += static_cast<char>(17 * i);
  return file;
}

}  // namespace

void fuzz_safetensors(std::string_view input) {
  const std::string contents = file_of(input);
  const std::string path = memory_file(contents);
  StateDict file;
  if (refusal_of(contents, [&] { file = read_safetensors(path); })) return;

  static const std::string copy = "/dev/shm/rowgrad-fuzz-" + std::to_string(::getpid());
  write_safetensors(copy, file);
  expect(testing::bits_of(read_safetensors(copy)) == testing::bits_of(file),
         "wrong contents when written");
  ::unlink(copy.c_str());
}

}  // namespace rowgrad::fuzzing
