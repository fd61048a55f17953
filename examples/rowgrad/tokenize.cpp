// Converts text to token ids and back, and trains and saves tokenizers.

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

// Returns the special tokens to recognize in text: all if --special is given, otherwise none.
std::vector<std::string> allowed_special(const Tokenizer& tokenizer, const Options& options) {
  std::vector<std::string> tokens;
  if (options.special)
    for (const std::int32_t id : tokenizer.vocabulary().special_ids())
      tokens.push_back(tokenizer.token(id));
  return tokens;
}

void verify_files(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const TokenFile file(path);
    check_runtime(file.header().has_value(), path,
                  ": has no checksum, expected a file written by tokenize --output");
    file.verify();
    std::cout << path << ": " << file.size() << " ids match the checksum" << std::endl;
  }
}

void encode_to_file(const Tokenizer& tokenizer, const Options& options) {
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  std::uint64_t bytes = 0;
  for (const auto& file : files) {
    check_runtime(std::filesystem::is_regular_file(file), file.string(),
                  ": not a regular file, as --output requires");
    bytes += InputFile(file).size_bytes();
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto speed = [&](std::uint64_t done) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return readable_count(static_cast<double>(done) / time.count()) + " bytes/s";
  };
  ProgressLine progress;
  TokenFileWriter writer(options.output, tokenizer.vocabulary());
  encode_files(
      tokenizer, files, writer,
      {.allowed_special = allowed_special(tokenizer, options),
       .separator = options.separate ? std::string(kEndOfText) : "",
       .threads = options.threads,
       .after_block = [&](std::uint64_t done) {
         progress.show(concat(done * 100 / bytes, " % of ", bytes, " bytes, ", speed(done)));
       }});
  writer.finish();
  progress.clear();
  std::cout << bytes << " bytes of text encoded to " << writer.count() << " ids in "
            << options.output << ", " << bytes_per_id(tokenizer.size()) << " bytes per id, "
            << speed(bytes) << "\nTrain with: rowgrad train --corpus " << shell_word(options.output)
            << " --tokenizer "
            << shell_word(options.save.empty() ? options.tokenizer : options.save) << '\n';
}

// Parses ids separated by whitespace.
std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const char* const end = word.data() + word.size();
    std::int32_t id = 0;
    const auto [rest, error] = std::from_chars(word.data(), end, id);
    check_argument(error == std::errc() && rest == end, "got ", in_quotes(word),
                   ", expected a token id");
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
  check_argument(!options.separate || tokenizer->vocabulary().find_special(kEndOfText),
                 "--separate: the tokenizer has no special token ", kEndOfText);
  if (!options.save.empty()) tokenizer->save(options.save);
  if (!options.output.empty()) return encode_to_file(*tokenizer, options);
  const std::string input = without_byte_order_mark(read_standard_input(), "standard input");
  if (options.decode) {
    std::cout << tokenizer->decode(parse_ids(input));
    return;
  }
  const Ids ids =
      tokenizer->encode(input, {.allowed_special = allowed_special(*tokenizer, options)});
  for (const char* separator = ""; const std::int32_t id : ids)
    std::cout << std::exchange(separator, " ") << id;
  std::cout << '\n';
}

OptionTable option_table_of(Options& o) {
  const OptionRules words = applies_when("--tokenizer", {"word", "whitespace"});
  return {
      {"--tokenizer", &o.tokenizer,
       "word, whitespace (for tokenized text), char or bpe, trained on --corpus; gpt2; or a file "
       "written by --save",
       tokenizer_choice()},
      {"--corpus", &o.corpus, "text to train the tokenizer on (default: The Verdict)",
       file_name() + applies_when("--tokenizer", {"word", "whitespace", "char", "bpe"})},
      {"--vocabulary", &o.vocabulary, "vocabulary size for --tokenizer bpe",
       whole_number(1) + applies_when("--tokenizer", {"bpe"})},
      {"--min-count", &o.words.min_count,
       "occurrences in the corpus that a word needs to get an id", whole_number(1) + words},
      {"--max-tokens", &o.words.max_tokens, "keep only the N most frequent words; 0 for all",
       whole_number(0) + words},
      {"--lower", &o.words.lower, "convert words to lowercase", words},
      {"--save", &o.save, "write the tokenizer to this JSON file", file_name()},
      {"--decode", &o.decode, "read ids separated by whitespace, and write text"},
      {"--special", &o.special, "encode special tokens such as <|endoftext|> as single ids",
       excludes({"--decode", "--verify"})},
      {"FILE", &o.files, "text files to encode with --output, or .bin files to check with --verify",
       existing_file()},
      {"--output", &o.output, "write the ids of all FILEs to this .bin file, for train --corpus",
       file_name() + excludes({"--decode"})},
      {"--verify", &o.verify, "check the ids in each FILE against its checksum",
       excludes({"--output", "--decode", "--save", "--tokenizer"})},
      {"--separate", &o.separate, "insert <|endoftext|> between FILEs", needs("--output")},
      {"--threads", &o.threads, "number of threads for --output; 0 for one per processor",
       whole_number(0, 1024) + needs("--output")},
      force_option(o.force)};
}

void check(const Options& options) {
  const bool encodes = !options.output.empty(), takes_files = encodes || options.verify;
  check_argument(
      options.files.empty() || takes_files,
      "FILE requires --output or --verify; without them, text is read from standard input");
  check_argument(!options.files.empty() || !takes_files, encodes ? "--output" : "--verify",
                 " requires at least one FILE to read");
  check_argument(!encodes || options.output.ends_with(".bin"), "--output: got ", options.output,
                 ", expected a name that ends in .bin, so that train recognizes it");
  check_argument(!encodes || !options.save.empty() || !is_made_from_text(options.tokenizer),
                 "--output with --tokenizer ", options.tokenizer,
                 " requires --save FILE, which train needs as --tokenizer FILE");
}

}  // namespace

int tokenize_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad tokenize",
      "Convert text on standard input to token ids (with --decode, ids to text) or, with "
      "--output, text files of any size to a file of ids. With --save, save the "
      "tokenizer.",
      option_table_of(options));
  line.parse(argc, argv);
  check(options);
  std::ios::sync_with_stdio(false);
  options.verify ? verify_files(options.files) : run(options);
  return 0;
}

}  // namespace rowgrad
