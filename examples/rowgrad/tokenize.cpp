// Converts text on standard input to token ids, and back, and files of any size to files of ids.

#include <charconv>
#include <chrono>
#include <iostream>
#include <sstream>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/encode_files.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string tokenizer = "gpt2";
  std::string corpus;
  std::string save;
  std::size_t vocabulary = 512;
  WordOptions words;
  bool decode = false;
  bool special = false;
  bool verify = false;
  std::string output;
  std::vector<std::string> files;
  bool separate = false;
  bool force = false;
  std::size_t threads = 0;
};

std::unique_ptr<Tokenizer> chosen_tokenizer(const Options& options) {
  const DataFile text =
      is_made_from_text(options.tokenizer) ? find_corpus(options.corpus) : DataFile();
  if (options.tokenizer != "bpe") check_utf8(text.source, text.contents);
  return make_tokenizer(options.tokenizer, text.contents, options.vocabulary, options.words);
}

EncodeOptions encode_options(const Tokenizer& tokenizer, bool special) {
  if (!special) return {};
  EncodeOptions options;
  for (const std::int32_t id : tokenizer.vocabulary().special_ids())
    options.allowed_special.push_back(tokenizer.token(id));
  return options;
}

void verify_files(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const TokenFile file(path);
    check_runtime(file.header().has_value(), path, ": has no checksum to verify its ids by");
    file.verify();
    std::cout << path << ": " << file.size() << " ids, as they were written" << std::endl;
  }
}

void run_files(const Tokenizer& tokenizer, const Options& options) {
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  std::uint64_t bytes = 0;
  for (const auto& file : files) bytes += InputFile(file).size_bytes();
  ProgressLine progress;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  EncodeFilesOptions encode{
      .allowed_special = encode_options(tokenizer, options.special).allowed_special,
      .separator = options.separate ? std::string(kEndOfText) : "",
      .threads = options.threads};
  TokenFileWriter writer(options.output, tokenizer.vocabulary());
  const auto speed = [&](std::uint64_t done) {
    return readable_count(static_cast<double>(done) / seconds()) + " bytes/s";
  };
  encode.after_block = [&](std::uint64_t done) {
    progress.show(concat(done * 100 / bytes, " % of ", bytes, " bytes, ", speed(done)));
  };
  encode_files(tokenizer, files, writer, encode);
  writer.finish();
  progress.clear();
  std::cout << writer.count() << " ids of " << bytes << " bytes in " << options.output << ", "
            << bytes_per_id(tokenizer.size()) << " bytes an id, " << speed(bytes) << '\n';
  std::cout << "Train with --corpus " << options.output << " --tokenizer "
            << (options.save.empty() ? options.tokenizer : options.save) << '\n';
}

void print_ids(const Ids& ids) {
  for (const char* separator = ""; const std::int32_t id : ids)
    std::cout << std::exchange(separator, " ") << id;
  std::cout << '\n';
}

// Parses ids that are separated by white space. Throws for anything else.
std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const char* const end = word.data() + word.size();
    std::int32_t id = 0;
    const auto [rest, error] = std::from_chars(word.data(), end, id);
    check_argument(error == std::errc() && rest == end, in_quotes(word), " is no token id");
    ids.push_back(id);
  }
  return ids;
}

void run(const Options& options) {
  std::vector<std::string> read = options.files;
  read.insert(read.end(), {options.corpus, tokenizer_file(options.tokenizer)});
  check_outputs({{"--save", options.save, kTokenizerFile}, {"--output", options.output, kTokenIds}},
                read, options.force);
  const auto tokenizer = chosen_tokenizer(options);
  if (!options.save.empty()) tokenizer->save(options.save);
  if (!options.output.empty()) return run_files(*tokenizer, options);
  const std::string input = without_byte_order_mark(read_standard_input(), "standard input");
  if (options.decode) {
    std::cout << tokenizer->decode(parse_ids(input));
  } else {
    print_ids(tokenizer->encode(input, encode_options(*tokenizer, options.special)));
  }
}

OptionTable option_table_of(Options& o) {
  return {
      {"--tokenizer", &o.tokenizer,
       "word, char and bpe are made from the corpus; gpt2 from GPT-2's files; or a JSON file "
       "that --save wrote",
       tokenizer_choice()},
      {"--corpus", &o.corpus, "text that the tokenizer is made from; The Verdict if not given",
       file_name() + applies_when("--tokenizer", {"word", "char", "bpe"})},
      {"--vocabulary", &o.vocabulary, "number of ids that bpe trains",
       whole_number(1) + applies_when("--tokenizer", {"bpe"})},
      {"--min-count", &o.words.min_count, "how often a word must occur in the corpus to get an id",
       whole_number(1) + applies_when("--tokenizer", {"word"})},
      {"--max-tokens", &o.words.max_tokens,
       "number of ids for words at most, the most frequent; 0 for no limit",
       whole_number(0) + applies_when("--tokenizer", {"word"})},
      {"--lower", &o.words.lower, "words in lower case", applies_when("--tokenizer", {"word"})},
      {"--save", &o.save, "write the tokenizer to this JSON file", file_name()},
      {"--decode", &o.decode, "ids separated by blanks on standard input, text out"},
      {"--special", &o.special, "special tokens in the text, as <|endoftext|>, count as such",
       excludes({"--decode", "--verify"})},
      {"FILE", &o.files, "files for --output or --verify, one after another", existing_file()},
      {"--output", &o.output, "file of ids to write, for --corpus of train; its name ends in .bin",
       file_name() + needs("FILE") + excludes({"--decode"})},
      {"--verify", &o.verify, "whether the ids in the files are still those that --output wrote",
       needs("FILE") + excludes({"--output", "--decode", "--save", "--tokenizer"})},
      {"--separate", &o.separate, "<|endoftext|> between the files", needs("--output")},
      {"--threads", &o.threads, "for --output; 0 for as many as there are cores",
       whole_number(0, 1024) + needs("--output")},
      force_option(o.force)};
}

void check(const Options& options) {
  check_argument(options.files.empty() || options.verify || !options.output.empty(),
                 "FILE is for --output or --verify");
  check_argument(options.output.empty() || options.output.ends_with(".bin"), "--output ",
                 options.output, ": expected a name that ends in .bin, as train knows ids by it");
  check_argument(
      options.output.empty() || !options.save.empty() || !is_made_from_text(options.tokenizer),
      "--output: the tokenizer ", options.tokenizer,
      " is made here; --save FILE keeps it, and training takes it as --tokenizer FILE");
}

}  // namespace
int tokenize_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad tokenize",
      "Turns the text on standard input into token ids, or with --decode ids into text; with "
      "--output, text files of any size into a file of ids.",
      option_table_of(options));
  line.parse(argc, argv);
  check(options);
  std::ios::sync_with_stdio(false);
  options.verify ? verify_files(options.files) : run(options);
  return 0;
}

}  // namespace rowgrad
