#include <algorithm>
#include <utility>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/layers/gpt/gpt_file.hpp>

namespace rowgrad {
namespace {

DataLoader training_loader(const TrainOptions& options, const Split& text,
                           const std::vector<std::uint64_t>& counts, const Vocabulary& vocabulary) {
  DataLoaderOptions loader = options.loader;
  loader.seed = options.seed;
  loader.drop_last = options.draws_as_pytorch;
  loader.draw_order = options.draws_as_pytorch;
  return DataLoader(options.make_examples(text.train, options.stride, counts, vocabulary), loader);
}

std::optional<DataLoader> validation_loader(const TrainOptions& options, const Split& text,
                                            const std::vector<std::uint64_t>& counts,
                                            const Vocabulary& vocabulary) {
  if (options.validation == 0) return std::nullopt;
  const std::size_t context = options.gpt.context;
  check_argument(text.validation.size() > context, "--validation ", options.validation,
                 " holds out ", text.validation.size(), " tokens, expected more than --context ",
                 context);
  return DataLoader(options.make_examples(text.validation, context, counts, vocabulary),
                    {.batch = options.loader.batch});
}

// Returns the mean size of a step of word vectors, from draws of at least 100 blocks, if possible
// different ones.
PairsPerStep pairs_per_step(const TrainOptions& options, const Dataset& data, std::size_t ids) {
  if (!options.has_word_vectors()) return {};
  std::vector<std::int64_t> blocks(std::clamp<std::size_t>(data.size(), 100, 1000));
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = static_cast<std::int64_t>(i * data.size() / blocks.size());
  Random random(0);
  const Batch drawn = data.draw(blocks, random);
  const auto inputs = static_cast<double>(drawn.bags[0].ids.size()),
             targets = static_cast<double>(drawn.bags[1].ids.size()),
             negatives = static_cast<double>(options.negatives),
             shared = static_cast<double>(options.shared_negatives);
  const auto all = static_cast<double>(blocks.size());
  check_argument(targets * static_cast<double>(data.size()) >= all, "--subsample ",
                 options.subsample, " leaves no pairs of words in the training text of ",
                 data.size(), " blocks, expected a larger fraction, or 0 to keep all words");
  // Rows of the input and output tables. The context words of a CBOW target share its gradients.
  std::vector<double> input(ids), output(ids);
  const auto add = [](std::vector<double>& to, const Ids& looked_up, double weight) {
    for (const std::int32_t id : looked_up.storage()) to[static_cast<std::size_t>(id)] += weight;
  };
  add(input, drawn.bags[0].ids, (1 + negatives) * targets / inputs);
  add(output, drawn.bags[1].ids, 1);
  if (shared > 0)
    add(output, drawn.shared[0], negatives * targets / shared);
  else
    add(output, drawn.bags[2].ids, 0.5);  // gradients of trained negatives are smaller
  const double steps =
      all / static_cast<double>(std::min<std::size_t>(options.loader.batch, data.size()) *
                                options.accumulate);
  return {.targets = targets / steps,
          .of_row = std::max(std::ranges::max(input), std::ranges::max(output)) / steps};
}

template <class Part>
Part* pointer_to(std::optional<Part>& part) {
  return part ? &*part : nullptr;
}

void check_text(const StateDict& file, const Corpus& corpus) {
  const std::string hash = file.string("text_checksum"), found = corpus.hash();
  check_argument(hash == found, "the run was trained on a different corpus: its checksum is ", hash,
                 ", but ", corpus.source(), " has checksum ", found);
}

// Checks that sharded table files are read by the same number of ranks that created them.
void check_ranks_of_tables(const StateDict& file, const TrainOptions& options,
                           const ProcessGroup* ranks) {
  const std::size_t saved = saved_ranks(file), here = ranks == nullptr ? 1 : ranks->size();
  check_argument(!options.shard_tables || options.ngram_file.empty() || saved == here,
                 "got mpirun -n ", here, ", expected -n ", saved,
                 ", because its sharded tables are in files");
}

void check_folding(const StateDict& file, const Model& model) {
  const auto* gpt = dynamic_cast<const GptModel*>(&model);
  check_argument(
      gpt == nullptr || file.integers("gpt.memories.canonical") ==
                            gpt_options_state(gpt->options()).integers("memories.canonical"),
      "--ngram-fold merges other tokens than in the saved run, as the version of utf8proc differs");
}

Sample sample_from(const Json& json) {
  const Json *steps = json.find("steps"), *text = json.find("text");
  check_argument(steps != nullptr && text != nullptr, "a sample has no \"steps\" or no \"text\"");
  return {steps->whole_number(), text->string()};
}

}  // namespace

// --- Creating -----------------------------------------------------------------------------------

Session::Loaders::Loaders(const TrainOptions& options, const Split& text,
                          const std::vector<std::uint64_t>& counts, const Vocabulary& vocabulary)
    : training(training_loader(options, text, counts, vocabulary)),
      validation(validation_loader(options, text, counts, vocabulary)),
      training_sample(training) {
  if (validation)
    validation_sample.emplace(
        validation->dataset(),
        DataLoaderOptions{.batch = options.loader.batch, .draw_order = options.draws_as_pytorch});
}

Session::Session(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer,
                 const Corpus& corpus, ProcessGroup* ranks, bool resumed)
    : options_(options),
      text_hash_(corpus.hash()),
      text_files_(corpus.files()),
      tokenizer_(std::move(tokenizer)),
      text_(corpus.split(*tokenizer_, options.validation, options.lines)),
      counts_(options.has_word_vectors() || options.sampled_softmax > 0
                  ? id_counts(text_.train, tokenizer_->size())
                  : std::vector<std::uint64_t>()),
      random_(options.seed),
      loaders_(options, text_, counts_, tokenizer_->vocabulary()),
      pairs_(pairs_per_step(options, *loaders_.training.dataset(), tokenizer_->size())),
      ranks_(ranks != nullptr ? std::optional<ParallelTraining>(std::in_place, *ranks)
                              : std::nullopt),
      model_(options.make_model(*tokenizer_, random_, tables_, resumed, ranks,
                                options.shard_tables ? pointer_to(ranks_) : nullptr)),
      optimizer_(options.make_optimizer(model_->parameters(), pairs_)),
      schedule_(std::in_place, *optimizer_, Schedule::constant()),
      run_(parts()) {
  sample_loss();
  start_schedule(0);
  tables_.keep();
}

// Counts each token once more, so that tokens of the validation text are drawn as well.
void Session::sample_loss() {
  const std::uint64_t count = options_.sampled_softmax;
  if (count == 0) return;
  check_argument(count <= tokenizer_->size(), "--sampled-softmax ", count,
                 " exceeds the vocabulary of ", tokenizer_->size(), " tokens");
  std::vector<std::uint64_t> counts = counts_;
  for (std::uint64_t& each : counts) ++each;
  as_language_model(*model_, "--sampled-softmax")
      .sample_loss(NegativeSampler::from_counts(counts), count);
}

TrainingRunOptions Session::parts() {
  const std::size_t every = options_.evaluation.every;
  return {.model = *model_,
          .optimizer = *optimizer_,
          .loader = loaders_.training,
          .random = random_,
          .schedule = &*schedule_,
          .validation = pointer_to(loaders_.validation),
          .clip_norm = options_.clip,
          .clip_from = options_.clip_from,
          .accumulate = options_.accumulate,
          .slices = options_.slices,
          .ranks = pointer_to(ranks_),
          .epochs = options_.epochs,
          .steps = options_.steps,
          .evaluation = {.every = every,
                         .batches = every > 0 ? options_.evaluation.batches : 0,
                         .training = &loaders_.training_sample,
                         .validation = pointer_to(loaders_.validation_sample)}};
}

std::unique_ptr<Session> Session::create(const TrainOptions& options,
                                         std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
                                         ProcessGroup* ranks) {
  return std::unique_ptr<Session>(new Session(options, std::move(tokenizer), corpus, ranks, false));
}

std::unique_ptr<Session> Session::resume(const StateDict& file, const std::string& name,
                                         const Corpus& corpus, ProcessGroup* ranks) {
  const TrainOptions options = saved_options(file, name, "resumed");
  return explaining(name, "resumed", [&] {
    check_text(file, corpus);
    check_ranks_of_tables(file, options, ranks);
    auto tokenizer = tokenizer_from_json(file.string("tokenizer"));
    check_model_size(file, options, *tokenizer);
    std::unique_ptr<Session> session(
        new Session(options, std::move(tokenizer), corpus, ranks, true));
    session->load(file, name);
    return session;
  });
}

void Session::load(StateDict state, const std::string& name) {
  check_folding(state, *model_);
  if (text_files_.empty()) text_files_ = Json(state.string("corpus"), "its corpus").strings();
  const Json samples(state.string("samples"), "its samples");
  for (const std::string& watched : state.part("watched").names())
    state.erase("watched." + watched);
  run_.load_state_dict(
      with_sharded_rows(std::move(state), name, pointer_to(ranks_), model_->parameters()));
  for (const Json& sample : samples.elements()) samples_.push_back(sample_from(sample));
}

std::unique_ptr<Session> Session::replay(const StateDict& file, const std::string& name,
                                         const Corpus& corpus,
                                         const std::filesystem::path& tables) {
  TrainOptions options = saved_options(file, name, "trained again");
  return explaining(name, "trained again", [&] {
    check_text(file, corpus);
    if (!options.ngram_file.empty()) options.ngram_file = tables / "table";
    return create(options, tokenizer_from_json(file.string("tokenizer")), corpus);
  });
}

void Session::set_options(const TrainOptions& options) {
  options_ = options;
  run_.set_length(options.epochs, options.steps);
  start_schedule(run_.steps());
}

void Session::start_schedule(std::uint64_t step) {
  schedule_.emplace(*optimizer_,
                    options_.make_schedule(std::max<std::size_t>(run_.total_steps(), 1)));
  StateDict state;
  state.put("step", step);
  state.put("base_rates", options_.base_rates(*optimizer_, pairs_));
  schedule_->load_state_dict(state);
}

// --- Saving -------------------------------------------------------------------------------------

void Session::save(const std::filesystem::path& path, const StateDict& watched) {
  run_.check_can_save();
  tables_.checkpoint();
  // Wait until all ranks have written the table checkpoints, to which the checkpoint refers.
  if (ranks_ && !tables_.empty()) ranks_->group().any(false);
  const bool is_sharded = ranks_ && ranks_->has_tables();
  if (!run_.is_first_rank() && !is_sharded) return;
  StateDict file = run_.state_dict();
  file.put("samples", samples_json());
  file.put("format", kRunFormat);
  file.put("options", to_json(options_));
  file.put("tokenizer", tokenizer_->to_json());
  file.put("text_checksum", text_hash_);
  file.put("corpus", Json(text_files_).dump());
  if (const auto* gpt = dynamic_cast<const GptModel*>(model_.get()))
    file.put("gpt", gpt_options_state(gpt->options()));  // for load_gpt()
  StateDict watching;
  watching.put("watched", watched);
  if (is_sharded)
    return write_sharded_checkpoint(path, file, *ranks_, model_->parameters(), watching);
  file.put("watched", watched);
  write_whole_checkpoint(path, file);
}

std::string Session::samples_json() const {
  Json all = Json::array();
  for (const Sample& sample : samples_)
    all.push_back({{"steps", sample.steps}, {"text", sample.text}});
  return all.dump();  // replaces an incomplete character at the end of a sample
}

// --- The corpus and its losses ------------------------------------------------------------------

std::optional<TrainingRecord> Session::evaluate_all() {
  DataLoader whole(loaders_.training.dataset(),
                   {.batch = options_.loader.batch, .drop_last = options_.draws_as_pytorch});
  return run_.evaluate(whole, pointer_to(loaders_.validation));
}

std::optional<double> Session::validation_loss() {
  if (!loaders_.validation) return std::nullopt;
  return evaluate(*model_, *loaders_.validation,
                  {.batches = run_.options().evaluation.batches, .tables = run_.tables()})
      ->loss;
}

const TokenSequence* Session::validation_ids() const {
  return loaders_.validation ? &text_.validation : nullptr;
}

std::uint64_t Session::validation_tokens() const {
  return loaders_.validation ? validation_ids()->size() : 0;
}

TokenSequence Session::evaluated_ids() const {
  const TokenSequence& all = *validation_ids();
  const std::uint64_t batches = run_.options().evaluation.batches;
  if (batches == 0 || batches >= loaders_.validation->batches()) return all;
  return all.slice(
      0, batches * options_.loader.batch * options_.gpt.context + 1);  // + 1 for the last target
}

Ids Session::first_words(std::uint64_t most) const {
  return training_ids()
      .slice(0, std::min<std::uint64_t>({training_ids().size(), most, options_.gpt.context}))
      .ids();
}

}  // namespace rowgrad
