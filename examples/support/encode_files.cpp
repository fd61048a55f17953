#include <algorithm>
#include <deque>
#include <future>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>
#include <rowgrad/examples/support/encode_files.hpp>

namespace rowgrad {
namespace {

// The last place before one of these blanks where a text can be cut, whatever the tokenizer and
// whatever follows; 0 if there is none. A blank that follows anything but white space begins a
// piece for byte pairs, ends a word, and is a character.
std::size_t last_cut(std::string_view text, std::string_view blanks) {
  for (std::size_t cut = text.size(); cut > 0;) {
    cut = text.find_last_of(blanks, cut - 1);
    if (cut == text.npos || cut == 0) break;
    std::size_t before = cut - 1;  // where the character before the blank begins
    while (before > 0 && cut - before < 4 && (text[before] & 0xC0) == 0x80) --before;
    const Utf8Character character = decode_utf8(text, before);
    if (before + character.bytes == cut &&
        character_class(character.code_point) != CharacterClass::white_space)
      return cut;
  }
  return 0;
}

// A part of a file from `offset` on that can be encoded alone: about so many bytes, or the rest.
std::string read_block(InputFile& file, std::uint64_t offset, std::uint64_t bytes,
                       std::string_view blanks) {
  const std::uint64_t left = file.size_bytes() - offset;
  std::string text;
  std::size_t cut = 0;
  for (std::uint64_t wanted = bytes; cut == 0; wanted *= 2) {
    text.resize(std::min(left, wanted));
    file.read(offset, std::as_writable_bytes(std::span(text)));
    cut = text.size() == left ? left : last_cut(text, blanks);
  }
  text.resize(cut);
  return text;
}

// A block of a file, and what becomes of it.
struct Encoding {
  const std::filesystem::path& file;
  std::uint64_t begin;  // in bytes
  std::string text;
  std::future<std::vector<std::int32_t>> ids = {};
};

}  // namespace

void encode_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                  TokenFileWriter& writer, const EncodeFilesOptions& options) {
  check_argument(options.block_bytes >= 1, "encode_files: block_bytes is 0, expected at least 1");
  const auto separator = tokenizer.vocabulary().find_special(options.separator);
  check_argument(separator || options.separator.empty(), "encode_files: the separator ",
                 options.separator, " is no special token of this tokenizer");
  std::string blanks;  // that are in no special token
  for (const char blank : {' ', '\t', '\n', '\r'})
    if (std::ranges::none_of(options.allowed_special, [&](const std::string& token) {
          return token.find(blank) != token.npos;
        }))
      blanks += blank;
  const auto encoded = [&](const Encoding& block) {
    try {
      return tokenizer.encode(block.text,
                              {.allowed_special = options.allowed_special, .offset = block.begin});
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(concat(block.file.string(), ": ", error.what()));
    }
  };

  // As many blocks as there are threads are encoded at a time, and appended in their order.
  std::deque<Encoding> encodings;
  std::uint64_t done = 0;
  const auto finish_first = [&] {
    Encoding& first = encodings.front();
    if (first.begin == 0 && &first.file != &files.front() && separator)
      writer.append(std::span(&*separator, 1));
    writer.append(first.ids.get());
    done += first.text.size();
    encodings.pop_front();
    if (options.after_block) options.after_block(done);
  };
  const std::size_t threads =
      options.threads > 0 ? options.threads : std::max(std::thread::hardware_concurrency(), 1U);
  for (const std::filesystem::path& path : files) {
    InputFile file(path);
    check_runtime(file.size_bytes() > 0, path.string(), " is empty");
    for (std::uint64_t offset = 0; offset < file.size_bytes();) {
      if (encodings.size() == threads) finish_first();
      encodings.push_back({path, offset, read_block(file, offset, options.block_bytes, blanks)});
      Encoding& block = encodings.back();
      offset += block.text.size();
      block.ids = std::async([&encoded, &block] { return encoded(block); });
    }
    file.check_unchanged();
  }
  while (!encodings.empty()) finish_first();
}

}  // namespace rowgrad
