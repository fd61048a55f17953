// Models with an optimizer, saved and loaded: see support/resumable.hpp.

#include "tests/support/resumable.hpp"

#include "tests/test.hpp"

namespace {

template <class Language>
class RunningLanguageModel : public RunningModel {
 public:
  RunningLanguageModel(const auto& options, bool other)
      : random_(other ? 2 : 1), language_(options, random_) {}

  std::string step() override {
    sgd_.zero_grad();
    Tape tape(random_);
    const Variable loss = language_.loss(tape, inputs_, targets_);
    tape.backward(loss);
    sgd_.step();
    return concat(loss.item());
  }
  Checkpoint save() override {
    Checkpoint state = RunningModel::save();
    state.put("random", random_.state_dict());
    return state;
  }
  void load(const Checkpoint& state) override {
    RunningModel::load(state);
    random_.load_state_dict(state.part("random"));
  }

 private:
  Layer& model() override { return language_; }
  Optimizer& optimizer() override { return sgd_; }

  Random random_;
  Language language_;
  SGD sgd_{language_.parameters(), {.learning_rate = 0.5, .momentum = 0.9}};
  Ids inputs_ = ids({2, 3}, {4, 0, 1, 4, 8, 3});
  Ids targets_ = ids({2, 3}, {0, 1, 4, 8, 3, 3});
};

template <class Language>
void expect_resumable_model(const char* name, const auto& options,
                            std::vector<std::size_t> failing = {}) {
  expect_resumable({.name = name,
                    .make =
                        [&](bool other) {
                          return std::make_unique<RunningLanguageModel<Language>>(options, other);
                        },
                    .steps = 6,
                    .taken = {"NaN in !(*.rules)", "no optimizer.*.momentum",
                              "2^62 in optimizer.*.step", "unknown random.more"},
                    .failing = std::move(failing)});
}

TEST(Models, AreResumable) {
  expect_resumable_model<NextTokenModel>(
      "looking back",
      NextTokenOptions{.vocabulary = 9, .width = 4, .look_back = 2, .hidden = {5}, .dropout = 0.1},
      {2});
  expect_resumable_model<NextTokenModel>(
      "with a buffer and a shared table",
      NextTokenOptions{
          .vocabulary = 9, .width = 4, .positions = Positions::kSinusoidal, .tie_weights = true});
  expect_resumable_model<GptModel>("with a memory of n-grams",
                                   GptOptions{.vocabulary = 9,
                                              .context = 4,
                                              .width = 4,
                                              .heads = 1,
                                              .layers = 1,
                                              .memories = {.blocks = {0},
                                                           .ngrams = {.heads = 1, .rows = 7},
                                                           .memory = {.head_width = 2}}});
}

}  // namespace
