#include <algorithm>
#include <deque>
#include <future>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/encode_files.hpp>

namespace rowgrad {
namespace {

// Returns the last offset at which the text can be cut before one of `blanks` without changing its
// ids, or 0 if it cannot be cut. A blank that does not follow whitespace is a boundary for every
// tokenizer: it starts a piece of byte pair encoding, ends a word, and is a character.
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

// Returns the offset of the text: the size of the byte order mark, or 0.
std::uint64_t begin_of_text(const InputFile& file) {
  std::string begin(std::min<std::uint64_t>(file.size_bytes(), kByteOrderMark.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin.size() - without_byte_order_mark(begin, file.path().string()).size();
}

// Reads about `bytes` bytes of a file at `offset`, or the rest. The block can be encoded on its
// own.
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

// A block of a file with its ids.
struct Encoding {
  const std::filesystem::path& file;
  std::uint64_t begin;  // in bytes
  bool begins_next_file;
  std::string text;
  std::future<std::vector<std::int32_t>> ids = {};
};

}  // namespace

void encode_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                  TokenFileWriter& writer, const EncodeFilesOptions& options) {
  check_argument(options.block_bytes >= 1, "encode_files: block_bytes is 0, expected at least 1");
  const auto separator = tokenizer.vocabulary().find_special(options.separator);
  check_argument(separator || options.separator.empty(), "encode_files: the separator ",
                 options.separator, " is not a special token of this tokenizer");
  std::string blanks;  // blanks that no special token contains
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

  // Encode up to `threads` blocks at a time, and append their ids in order.
  std::deque<Encoding> encodings;
  std::uint64_t done = 0;
  const auto finish_first = [&] {
    Encoding& first = encodings.front();
    if (first.begins_next_file && separator) writer.append(std::span(&*separator, 1));
    writer.append(first.ids.get());
    done += first.text.size();
    encodings.pop_front();
    if (options.after_block) options.after_block(done);
  };
  const std::size_t threads =
      options.threads > 0 ? options.threads : static_cast<std::size_t>(thread_count());
  for (const std::filesystem::path& path : files) {
    InputFile file(path);
    bool begins_file = true;
    const std::uint64_t begin = begin_of_text(file);
    check_runtime(file.size_bytes() > begin, path.string(), " is empty");
    for (std::uint64_t offset = begin; offset < file.size_bytes(); begins_file = false) {
      if (encodings.size() == threads) finish_first();
      encodings.push_back({path, offset, begins_file && &path != &files.front(),
                           read_block(file, offset, options.block_bytes, blanks)});
      Encoding& block = encodings.back();
      offset += block.text.size();
      block.ids = std::async([&encoded, &block] { return encoded(block); });
    }
    file.check_unchanged();
  }
  while (!encodings.empty()) finish_first();
}

}  // namespace rowgrad
