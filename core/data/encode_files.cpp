#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/encode_files.hpp>

namespace rowgrad {
namespace {

void check_not_empty(const InputFile& file) {
  check_runtime(file.size_bytes() > 0, file.path().string(), " is empty");
}

using Paths = std::vector<std::filesystem::path>;

struct Block {
  std::size_t number = 0;
  std::string text;
  const std::filesystem::path* file = nullptr;
  std::uint64_t begin = 0;  // in the file, in bytes
  std::uint64_t end = 0;    // in all files together
};

// Reads files in blocks that can be encoded one by one.
class BlockReader {
 public:
  BlockReader(const Tokenizer& tokenizer, const Paths& files, const EncodeFilesOptions& options,
              std::uint64_t position)
      : tokenizer_(tokenizer),
        files_(files),
        options_(options),
        encode_{.allowed_special = options.allowed_special} {
    for (; index_ < files.size(); ++index_) {
      open();
      if (position < file_->size_bytes()) break;
      position -= file_->size_bytes();
      done_ += file_->size_bytes();
    }
    offset_ = position;
    done_ += position;
  }

  std::optional<Block> next() {
    while (index_ < files_.size() && offset_ == file_->size_bytes()) {
      file_->check_unchanged();
      offset_ = 0;
      if (++index_ < files_.size()) open();
    }
    if (index_ == files_.size()) return std::nullopt;
    Block block{.number = number_++,
                .text = std::exchange(rest_, {}),
                .file = &files_[index_],
                .begin = offset_};
    std::size_t cut = 0;
    for (std::size_t wanted = options_.block_bytes; cut == 0; wanted *= 2) {
      const std::uint64_t left = file_->size_bytes() - offset_ - block.text.size();
      const std::size_t before = block.text.size();
      const std::uint64_t more = wanted > before ? wanted - before : 0;
      block.text.resize(before + static_cast<std::size_t>(std::min(left, more)));
      file_->read(offset_ + before, std::as_writable_bytes(std::span(block.text).subspan(before)));
      const bool whole = more >= left;
      cut = whole ? block.text.size() : tokenizer_.last_cut(block.text, encode_);
    }
    rest_ = block.text.substr(cut);
    block.text.resize(cut);
    offset_ += cut;
    done_ += cut;
    block.end = done_;
    return block;
  }

 private:
  void open() {
    file_.emplace(files_[index_]);
    check_not_empty(*file_);
  }

  const Tokenizer& tokenizer_;
  const Paths& files_;
  const EncodeFilesOptions& options_;
  EncodeOptions encode_;
  std::size_t index_ = 0;  // of the file that is being read
  std::optional<InputFile> file_;
  std::uint64_t offset_ = 0;  // in the file
  std::uint64_t done_ = 0;    // in all files together
  std::string rest_;          // of the file from offset_ on, that has been read already
  std::size_t number_ = 0;    // of blocks
};

// Threads take turns in reading and, in the order of the blocks, in writing. So each core encodes
// while another one reads or writes, and there is no more than a block for each thread.
class Encoding {
 public:
  Encoding(const Tokenizer& tokenizer, const Paths& files, TokenFileWriter& writer,
           const EncodeFilesOptions& options)
      : tokenizer_(tokenizer),
        writer_(writer),
        options_(options),
        saved_(writer.position()),
        reader_(tokenizer, files, options, writer.position()) {
    if (options.separator.empty()) return;
    separator_ = tokenizer.vocabulary().find_special(options.separator);
    check_argument(separator_.has_value(), "encode_files: the separator ", options.separator,
                   " is no special token of this tokenizer");
  }

  void run() {
    const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < (options_.threads == 0 ? cores : options_.threads); ++i)
        others.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // no more threads: these have to do
    }
    work();
    others.clear();  // waits for them
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    try {
      while (const auto block = read()) write(*block, ids_of(*block));
    } catch (...) {
      const std::lock_guard lock(writing_);
      if (!failure_) failure_ = std::current_exception();
      turn_.notify_all();
    }
  }

  std::optional<Block> read() {
    const std::lock_guard lock(reading_);
    return reader_.next();
  }

  Ids ids_of(const Block& block) const {
    try {
      return tokenizer_.encode(block.text, {.allowed_special = options_.allowed_special,
                                            .offset = static_cast<std::size_t>(block.begin)});
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(concat(block.file->string(), ": ", error.what()));
    }
  }

  void write(const Block& block, const Ids& ids) {
    std::unique_lock lock(writing_);
    turn_.wait(lock, [&] { return written_ == block.number || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    const bool begins_file = block.begin == 0 && block.end > block.text.size();
    if (separator_ && begins_file) writer_.append(std::span(&*separator_, 1));
    writer_.append(ids.storage());
    if (block.end - saved_ >= options_.save_bytes) {
      writer_.save(block.end);
      saved_ = block.end;
    }
    if (options_.after_block) options_.after_block(block.end);
    ++written_;
    turn_.notify_all();
  }

  const Tokenizer& tokenizer_;
  TokenFileWriter& writer_;
  const EncodeFilesOptions& options_;
  std::optional<std::int32_t> separator_;
  std::uint64_t saved_;  // the position at the last save

  std::mutex reading_;
  BlockReader reader_;

  std::mutex writing_;
  std::condition_variable turn_;
  std::size_t written_ = 0;  // blocks
  std::exception_ptr failure_;
};

}  // namespace

std::uint64_t encode_files_job(const Tokenizer& tokenizer,
                               const std::vector<std::filesystem::path>& files,
                               const EncodeFilesOptions& options) {
  Checksum sum;
  sum.add(tokenizer.to_json());  // the same tokens may be merged, or found, in other ways
  sum.add(options.separator);
  for (const std::string& token : options.allowed_special) sum.add(token);
  for (const std::filesystem::path& path : files) {
    const InputFile file(path);
    check_not_empty(file);
    sum.add(std::filesystem::absolute(path).string());
    sum.add(file.size_bytes());
    sum.add(static_cast<std::uint64_t>(file.changed_ns()));
  }
  return sum.value();
}

void encode_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                  TokenFileWriter& writer, const EncodeFilesOptions& options) {
  check_argument(options.block_bytes >= 1, "encode_files: block_bytes is 0, expected at least 1");
  Encoding(tokenizer, files, writer, options).run();
}

}  // namespace rowgrad
