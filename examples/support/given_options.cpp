#include <algorithm>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/support/given_options.hpp>

namespace rowgrad {
namespace {

// An option with an effect only where another has one of these values; or, with none here, where it
// is not 0.
struct Use {
  std::string key, of;
  std::vector<nlohmann::json> values = {};
};
const std::vector<Use> kUses{{"vocabulary", "tokenizer", {"bpe"}},
                             {"rotary_layout", "positions", {"rotary"}},
                             {"rotary_base", "positions", {"rotary"}},
                             {"t5_buckets", "positions", {"t5"}},
                             {"t5_max_distance", "positions", {"t5"}},
                             {"shaw_max_distance", "positions", {"shaw"}},
                             {"epochs", "steps", {0}},
                             {"momentum", "optimizer", {"sgd", "rmsprop"}},
                             {"beta2", "optimizer", {"adam", "adamw"}},
                             {"decay", "weight_decay"},
                             {"warmup", "schedule", {"constant", "warmup", "cosine", "step"}},
                             {"floor", "schedule", {"cosine"}},
                             {"evaluate_batches", "evaluate_every"},
                             {"sample_every", "sample"},
                             {"sample_epochs", "sample"},
                             {"temperature", "sample"},
                             {"top_k", "sample"},
                             {"top_k", "temperature"}};

std::string option_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

bool was_given(const CLI::App& app, const std::string& option) {
  const CLI::Option* known = app.get_option_no_throw(option);
  return known != nullptr && known->count() > 0;
}

}  // namespace

void check_options_have_effects(const CLI::App& app, const nlohmann::json& chosen) {
  for (const Use& use : kUses) {
    if (!was_given(app, option_of(use.key))) continue;
    const nlohmann::json& value = chosen.at(use.of);
    const auto& values = use.values;
    const bool fits = values.empty()
                          ? value != 0
                          : std::find(values.begin(), values.end(), value) != values.end();
    const auto text = [](const nlohmann::json& json) {
      return json.is_string() ? json.get<std::string>() : json.dump();
    };
    std::string expected = values.empty() ? "above 0" : text(values[0]);
    for (std::size_t i = 1; i < values.size(); ++i)
      expected += (i + 1 < values.size() ? ", " : " and ") + text(values[i]);
    check_argument(fits, option_of(use.key), " is for ", option_of(use.of), ' ', expected,
                   ", not for ", value.dump());
  }
}

TrainOptions resumed_options(const CLI::App& app, const TrainOptions& given,
                             const TrainOptions& saved) {
  nlohmann::json resumed = saved;
  const nlohmann::json wanted = given;
  for (const auto& [key, value] : wanted.items()) {
    const std::string option = option_of(key);
    if (!was_given(app, option)) continue;
    if (key != "epochs" && key != "steps" && key != "learning_rate")
      check_argument(resumed.contains(key) && value == resumed.at(key), option, " ", value.dump(),
                     ": the run to be resumed has ",
                     resumed.contains(key) ? resumed.at(key).dump() : "no such option");
    resumed[key] = value;
    if (key == "epochs" && app.count("--steps") == 0) resumed["steps"] = 0;
  }
  return resumed.get<TrainOptions>();
}

}  // namespace rowgrad
