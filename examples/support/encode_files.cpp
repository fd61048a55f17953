#include <algorithm>
#include <deque>
#include <future>
#include <optional>
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

using Paths = std::vector<std::filesystem::path>;

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

struct Block {
  const std::filesystem::path* file = nullptr;
  std::uint64_t begin = 0;  // in the file, in bytes
  std::string text = {};
};

// Reads files in blocks that can be encoded one by one.
class BlockReader {
 public:
  BlockReader(const Paths& files, const EncodeFilesOptions& options)
      : files_(files), block_bytes_(options.block_bytes) {
    const auto spans = [&](char blank) {
      return std::ranges::any_of(options.allowed_special, [&](const std::string& token) {
        return token.find(blank) != token.npos;
      });
    };
    for (const char blank : {' ', '\t', '\n', '\r'})
      if (!spans(blank)) blanks_ += blank;
  }

  // The next block of the file that is being read or, after its last one, of the next file.
  std::optional<Block> next() {
    if (file_ && offset_ == file_->size_bytes()) {
      file_->check_unchanged();
      file_.reset();
    }
    if (!file_) {
      if (opened_ == files_.size()) return std::nullopt;
      file_.emplace(files_[opened_++]);
      offset_ = 0;
      check_runtime(file_->size_bytes() > 0, file_->path().string(), " is empty");
    }
    Block block{.file = &files_[opened_ - 1], .begin = offset_};
    const std::uint64_t left = file_->size_bytes() - offset_;
    std::size_t cut = 0;
    for (std::uint64_t wanted = block_bytes_; cut == 0; wanted *= 2) {
      block.text.resize(std::min(left, wanted));
      file_->read(offset_, std::as_writable_bytes(std::span(block.text)));
      cut = block.text.size() == left ? left : last_cut(block.text, blanks_);
    }
    block.text.resize(cut);
    offset_ += cut;
    return block;
  }

 private:
  const Paths& files_;
  std::uint64_t block_bytes_;
  std::string blanks_;      // that are in no special token
  std::size_t opened_ = 0;  // files
  std::optional<InputFile> file_;
  std::uint64_t offset_ = 0;  // of the next block in the file
};

}  // namespace

void encode_files(const Tokenizer& tokenizer, const Paths& files, TokenFileWriter& writer,
                  const EncodeFilesOptions& options) {
  check_argument(options.block_bytes >= 1, "encode_files: block_bytes is 0, expected at least 1");
  const auto separator = tokenizer.vocabulary().find_special(options.separator);
  check_argument(separator || options.separator.empty(), "encode_files: the separator ",
                 options.separator, " is no special token of this tokenizer");
  const auto encoded = [&](const Block& block) {
    try {
      return tokenizer.encode(block.text,
                              {.allowed_special = options.allowed_special, .offset = block.begin});
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(concat(block.file->string(), ": ", error.what()));
    }
  };

  // As many blocks as there are threads are encoded at a time, and appended in their order.
  struct Encoding {
    Block block;
    std::future<std::vector<std::int32_t>> ids;
  };
  std::deque<Encoding> encodings;
  const std::size_t threads =
      options.threads > 0 ? options.threads : std::max(std::thread::hardware_concurrency(), 1U);
  std::uint64_t done = 0;
  BlockReader reader(files, options);
  for (auto block = reader.next(); block || !encodings.empty();) {
    if (block && encodings.size() < threads) {
      encodings.push_back({std::move(*block), {}});
      const Block& added = encodings.back().block;
      encodings.back().ids = std::async([&encoded, &added] { return encoded(added); });
      block = reader.next();
      continue;
    }
    Encoding& first = encodings.front();
    if (first.block.begin == 0 && first.block.file != &files.front() && separator)
      writer.append(std::span(&*separator, 1));
    writer.append(first.ids.get());
    done += first.block.text.size();
    encodings.pop_front();
    if (options.after_block) options.after_block(done);
  }
}

}  // namespace rowgrad
