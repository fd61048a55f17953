// Continues text with a saved model. The training corpus is not needed.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/options/common_options.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/session/truncation.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string run;
  std::string prompt;
  GenerateOptions sample{.max_new_tokens = 200, .temperature = 0.8, .on_token = [](std::int32_t) {
                           return !interrupted();
                         }};
  std::uint64_t seed = 123;
};

void write(const Options& options) {
  const SavedModel saved = load_model(options.run);
  LanguageModel& model = as_language_model(*saved.model, options.run);
  Random random(options.seed);
  std::vector<std::int32_t> text = saved.tokenizer->encode(options.prompt);
  check_argument(options.prompt.empty() || !text.empty(), "--prompt: ", in_quotes(options.prompt),
                 " encodes to no tokens");
  if (text.empty())
    text.push_back(static_cast<std::int32_t>(random.bits() % saved.tokenizer->size()));
  if (const std::size_t context = model.context(); text.size() > context)
    warn_of_cut(concat("the prompt has ", text.size(), " tokens"), "last", context);
  const HeldInterrupts until_the_text_is_shown;
  const Ids more = generate(model, to_ids(text), options.sample, random);
  text.insert(text.end(), more.begin(), more.end());
  std::cout << saved.tokenizer->decode(text) << '\n';
}

OptionTable option_table_of(Options& o) {
  return {{"RUN", &o.run, "checkpoint written by train, or a file written by save_gpt()",
           file_name("RUN") + required()},
          {"--prompt", &o.prompt, "text to continue (default: a random token)"},
          {"--sample-tokens", &o.sample.max_new_tokens,
           "tokens to generate; slow beyond the context unless --past-context is slide",
           whole_number(1)},
          past_context_option(o.sample.past_context),
          {"--temperature", &o.sample.temperature,
           "sampling temperature; 0 for the most likely token", finite_number(0)},
          {"--top-k", &o.sample.top_k, "sample from the N most likely tokens; 0 for all",
           whole_number(0) + applies_when("--temperature")},
          {"--seed", &o.seed, "random seed", whole_number(0, kAnyWhole)}};
}

}  // namespace

int generate_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line("rowgrad generate", "Continue text with a saved model.",
                   option_table_of(options));
  line.parse(argc, argv);
  write(options);
  return 0;
}

}  // namespace rowgrad
