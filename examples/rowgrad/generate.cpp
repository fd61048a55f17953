// Lets a model write that train --save or save_gpt() kept. It needs no text.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/options/common_options.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string file;
  std::string prompt;
  GenerateOptions sample{
      .count = 200, .temperature = 0.8, .on_token = [](std::int32_t) { return !interrupted(); }};
  std::uint64_t seed = 123;
};

void write(const Options& options) {
  const SavedModel saved = load_model(options.file);
  Random random(options.seed);
  std::vector<std::int32_t> text = saved.tokenizer->encode(options.prompt);
  check_argument(options.prompt.empty() || !text.empty(), "--prompt: ", in_quotes(options.prompt),
                 " has no tokens");
  if (text.empty())
    text.push_back(static_cast<std::int32_t>(random.bits() % saved.tokenizer->size()));
  const HeldInterrupts until_the_text_is_shown;
  const Ids more = generate(*saved.model, to_ids(text), options.sample, random);
  text.insert(text.end(), more.begin(), more.end());
  std::cout << saved.tokenizer->decode(text) << '\n';
}

}  // namespace
int generate_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad generate", "Lets a model write that train --save kept.",
      {{"FILE", &options.file, "file of train --save, or of save_gpt()",
        existing_file() + required()},
       {"--prompt", &options.prompt, "text to continue; a token by chance if not given"},
       {"--sample", &options.sample.count,
        "tokens to write; those past the context are slow, as each one reads the whole context "
        "again, unless --past-context is slide",
        whole_number(1)},
       past_context_option(options.sample.past_context),
       {"--temperature", &options.sample.temperature, "of sampling; 0 takes the likeliest token",
        finite_number(0)},
       {"--top-k", &options.sample.top_k, "sample among so many likeliest tokens; 0 for all",
        whole_number(0) + applies_when("--temperature")},
       {"--seed", &options.seed, "of sampling", whole_number(0, kAnyWhole)}});
  line.parse(argc, argv);
  write(options);
  return 0;
}

}  // namespace rowgrad
