#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/examples/rowgrad/report/run_analysis.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMaxEmbeddings = 2000;
constexpr std::size_t kMaxPrompt = 32;  // tokens for attention_json()
// The analysis reads one token for every 16 trained tokens, between kMinRead and kMaxRead, so that
// it is short after a short run.
constexpr std::size_t kTrainedAToken = 16;
constexpr std::size_t kMinRead = 1000;
constexpr std::size_t kMaxRead = 24'000;
constexpr std::size_t kExpected = 5;
constexpr std::size_t kNeighbours = 8;
// Limits of a forward pass, so that its values stay in the cache.
constexpr std::size_t kMaxLogits = std::size_t{1} << 22;
constexpr std::size_t kMaxAtOnce = 1024;  // tokens

// Returns the indices of the `count` largest values, in descending order.
std::vector<std::size_t> largest(std::span<const real> numbers, std::size_t count) {
  std::vector<std::size_t> places;
  const auto more = [&](std::size_t a, std::size_t b) { return numbers[a] > numbers[b]; };
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (places.size() == count) {
      if (!more(i, places.back())) continue;
      places.pop_back();
    }
    places.insert(std::upper_bound(places.begin(), places.end(), i, more), i);
  }
  return places;
}

std::int64_t in_thousandths(double share) { return std::llround(1000 * share); }
std::int64_t in_hundredths(real cosine) {
  return std::isfinite(cosine) ? std::llround(100 * static_cast<double>(cosine)) : 0;
}

// Divides each row by its length.
Tensor unit_rows(Tensor rows) {
  const std::size_t width = rows.shape()[1];
  for (std::size_t i = 0; i < rows.shape()[0]; ++i) {
    real* row = rows.data() + i * width;
    const real length = std::sqrt(std::inner_product(row, row + width, row, real{0}));
    for (std::size_t k = 0; length > 0 && k < width; ++k) row[k] /= length;
  }
  return rows;
}

// Returns a · aᵀ, or aᵀ · a if `transposed`.
Tensor squared(const Tensor& a, bool transposed) {
  const blas::MatrixView rows{a.data(), a.shape()[0], a.shape()[1]};
  const blas::MatrixView columns = blas::transposed(rows);
  const std::size_t size = transposed ? rows.columns : rows.rows;
  Tensor product = empty({size, size});
  blas::gemm(transposed ? columns : rows, transposed ? rows : columns,
             {product.data(), size, size});
  return product;
}

struct Component {
  Tensor direction;
  double variance;
};

// Returns the first principal component of a covariance matrix (by power iteration), and removes it
// from the matrix.
Component take_component(Tensor& variances) {
  const std::size_t width = variances.shape()[0];
  Tensor direction = empty({width, 1});
  for (std::size_t i = 0; i < width; ++i)  // unlikely to be orthogonal to the result
    direction.data()[i] = static_cast<real>(1 + 0.1 * static_cast<double>(i % 7));
  double variance = 0;
  for (int round = 0; round < 200; ++round) {
    Tensor next = empty({width, 1});
    blas::gemm({variances.data(), width, width}, {direction.data(), width, 1},
               {next.data(), width, 1});
    variance = std::sqrt(
        static_cast<double>(std::inner_product(next.begin(), next.end(), next.begin(), real{0})));
    if (variance == 0) break;
    for (std::size_t i = 0; i < width; ++i)
      direction.data()[i] = next.data()[i] / static_cast<real>(variance);
  }
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t j = 0; j < width; ++j)
      variances.data()[i * width + j] -=
          static_cast<real>(variance) * direction.data()[i] * direction.data()[j];
  return {std::move(direction), variance};
}

}  // namespace

std::vector<MemoryGates> read_gates(Model& model, const TokenSequence& text, std::uint64_t most,
                                    TablePlacement* tables) {
  auto* gpt = dynamic_cast<GptModel*>(&model);
  if (gpt == nullptr) return {};
  std::vector<MemoryGates> gates;
  for (const std::size_t block : gpt->options().memories.blocks) gates.push_back({.block = block});
  std::ranges::sort(gates, {}, &MemoryGates::block);
  const std::uint64_t tokens = std::min(text.size(), most);
  for (std::uint64_t first = 0; !gates.empty() && first < tokens;) {
    const auto length = std::min<std::uint64_t>(gpt->context(), tokens - first);
    const auto windows =
        std::max<std::uint64_t>(std::min<std::uint64_t>(tokens - first, kMaxAtOnce) / length, 1);
    Ids ids = text.slice(first, windows * length).ids();
    ids.reshape(Ids::shape_type{windows, length});
    if (tables != nullptr) tables->fetch(model.lookups({.ids = {ids, ids}}));
    const std::vector<Tensor> here = gpt->memory_gates(ids);
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i].values.insert(gates[i].values.end(), here[i].begin(), here[i].end());
    first += windows * length;
  }
  return gates;
}

Json text_json(LanguageModel& model, const TokenSequence& training, const TokenSequence* validation,
               const std::function<bool()>& should_continue, std::size_t most,
               TablePlacement* tables) {
  std::vector<std::int32_t> ids;
  Json losses = Json::array();
  Json expected = Json::array();
  Json probabilities = Json::array();
  const EvaluationMode evaluating(model);
  const std::size_t vocabulary = model.vocabulary();
  const auto read = [&](std::span<const std::int32_t> text, std::size_t pieces,
                        std::size_t length) {
    Ids inputs = Ids::from_shape({pieces, length});
    std::copy_n(text.begin(), inputs.size(), inputs.begin());
    if (tables != nullptr) tables->fetch(model.lookups({.ids = {inputs, inputs}}));
    Tape tape(Tape::kInference);
    const Variable logits = model.forward(tape, inputs);
    std::vector<kernels::ExpSum> sums(inputs.size());
    kernels::exp_sum_rows(logits.value().data(), inputs.size(), vocabulary, false, sums.data());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::span row(logits.value().data() + i * vocabulary, vocabulary);
      const std::int32_t target = text[i + 1];
      ids.push_back(target);
      losses.push_back(rounded(sums[i].above(row[static_cast<std::size_t>(target)])));
      Json shares = Json::array();
      const std::vector<std::size_t> likeliest = largest(row, kExpected);
      for (const std::size_t id : likeliest)
        shares.push_back(in_thousandths(std::exp(-sums[i].above(row[id]))));
      expected.push_back(likeliest);
      probabilities.push_back(std::move(shares));
    }
  };
  const std::size_t tokens = std::clamp<std::size_t>(kMaxLogits / vocabulary, 1, kMaxAtOnce);
  const std::size_t length = std::min(tokens, model.context());
  const auto read_all = [&](const TokenSequence& source, std::uint64_t count) {
    if (count == 0) return;
    std::vector<std::int32_t> all(count);
    source.read(0, all);
    const std::span<const std::int32_t> text = all;
    ids.push_back(text[0]);  // has no loss
    losses.push_back(Json());
    expected.push_back(Json::array());
    probabilities.push_back(Json::array());
    for (std::size_t first = 0; first + 1 < text.size();) {
      if (should_continue && !should_continue()) break;
      const std::size_t left = text.size() - 1 - first;
      const std::size_t pieces = std::min(left, tokens) / length;
      const std::size_t read_now = pieces > 0 ? pieces * length : left;
      read(text.subspan(first), std::max<std::size_t>(pieces, 1), pieces > 0 ? length : left);
      first += read_now;
    }
  };
  const std::uint64_t untrained_size = validation != nullptr ? validation->size() : 0;
  const auto of_validation = std::min<std::uint64_t>(untrained_size, most / 2);
  read_all(training, std::min<std::uint64_t>(training.size(), most - of_validation));
  const std::size_t trained = ids.size();
  if (validation != nullptr) read_all(*validation, of_validation);
  const std::size_t untrained = ids.size() - trained;
  Json text{
      {"ids", ids},
      {"training", trained},
      {"loss", std::move(losses)},
      {"expected", std::move(expected)},
      {"probability", std::move(probabilities)},
      {"left_out",
       {{"training", training.size() - trained}, {"validation", untrained_size - untrained}}}};
  std::vector<Json> gates;
  const auto add_gates = [&](const TokenSequence& source, std::size_t count) {
    if (count == 0) return;
    const std::vector<MemoryGates> all = read_gates(model, source, count - 1, tables);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (gates.size() == i) gates.push_back({{"block", all[i].block}});
      for (const double gate : all[i].values) gates[i]["values"].push_back(in_thousandths(gate));
      gates[i]["values"].push_back(Json());  // the last token has no gate
    }
  };
  if (should_continue && !should_continue()) return text;
  add_gates(training, trained);
  if (validation != nullptr) add_gates(*validation, untrained);
  if (!gates.empty()) text["gates"] = std::move(gates);
  return text;
}

Json embeddings_json(const Parameter& table, const std::vector<std::int32_t>& ids) {
  const Tensor rows = table.rows(ids);
  const std::size_t count = ids.size();
  const std::size_t width = rows.shape()[1];
  const Tensor cosines = squared(unit_rows(rows), false);
  Json result{{"ids", ids},         {"neighbours", Json::array()}, {"cosines", Json::array()},
              {"x", Json::array()}, {"y", Json::array()},          {"variance", Json::array()}};
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::iota(order.begin(), order.end(), 0);
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
    const std::size_t nearest = std::min(kNeighbours, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(nearest),
                      order.end(),
                      [&](std::size_t a, std::size_t b) { return cosines(i, a) > cosines(i, b); });
    Json neighbours = Json::array();
    Json values = Json::array();
    for (std::size_t k = 0; k < nearest; ++k) {
      neighbours.push_back(ids[order[k]]);
      values.push_back(in_hundredths(cosines(i, order[k])));
    }
    result["neighbours"].push_back(std::move(neighbours));
    result["cosines"].push_back(std::move(values));
    order.resize(count);
  }

  Tensor centred = rows;
  for (std::size_t k = 0; k < width; ++k) {
    double mean = 0;
    for (std::size_t i = 0; i < count; ++i) mean += static_cast<double>(rows(i, k));
    mean /= static_cast<double>(std::max<std::size_t>(count, 1));
    for (std::size_t i = 0; i < count; ++i) centred(i, k) -= static_cast<real>(mean);
  }
  Tensor variances = squared(centred, true);
  double total = 0;
  for (std::size_t k = 0; k < width; ++k) total += static_cast<double>(variances(k, k));
  for (const char* axis : {"x", "y"}) {
    const Component component = take_component(variances);
    for (std::size_t i = 0; i < count; ++i)
      result[axis].push_back(rounded(static_cast<double>(
          std::inner_product(component.direction.begin(), component.direction.end(),
                             centred.data() + i * width, real{0}))));
    result["variance"].push_back(total > 0 ? rounded(component.variance / total) : 0);
  }
  return result;
}

Json attention_json(GptModel& model, const Ids& prompt, TablePlacement* tables) {
  Ids text = prompt;
  text.reshape(Ids::shape_type{1, prompt.size()});
  if (tables != nullptr) tables->fetch(model.lookups({.ids = {text, text}}));
  Json layers = Json::array();
  for (const Tensor& weights : model.attention_weights(prompt)) {
    const std::size_t length = prompt.size();
    const std::size_t heads = weights.size() / (length * length);
    Json layer = Json::array();
    const real* weight = weights.data();
    for (std::size_t head = 0; head < heads; ++head) {
      Json queries = Json::array();
      for (std::size_t query = 0; query < length; ++query) {
        Json keys = Json::array();
        for (std::size_t key = 0; key < length; ++key)
          keys.push_back(in_thousandths(static_cast<double>(*weight++)));
        queries.push_back(std::move(keys));
      }
      layer.push_back(std::move(queries));
    }
    layers.push_back(std::move(layer));
  }
  return {{"tokens", std::vector<std::int32_t>(prompt.begin(), prompt.end())},
          {"weights", std::move(layers)}};
}

void add_analysis(RunLog& log, RowHistory& rows, const AnalysedRun& run) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (const TableHistory& table : rows.tables()) {
    if (table.kind() != RowKind::kToken || table.ids().empty()) continue;
    const std::vector<std::int32_t> ids = table.most_frequent(kMaxEmbeddings);
    table.values(ids);  // fetches the rows
    log.add("embeddings", {{"embeddings", embeddings_json(table.table(), ids)}});
  }
  const std::size_t most = std::clamp(run.trained_tokens / kTrainedAToken, kMinRead, kMaxRead);
  if (auto* language = dynamic_cast<LanguageModel*>(&run.model))
    log.add("text", {{"text", text_json(*language, run.training, run.validation,
                                        run.should_continue, most, run.tables)}});
  if (auto* gpt = dynamic_cast<GptModel*>(&run.model); gpt != nullptr && run.prompt.size() > 0) {
    const std::size_t count = std::min({run.prompt.size(), kMaxPrompt, gpt->context()});
    const Ids prompt = to_ids(std::span(run.prompt.data(), count));
    log.add("attention", {{"attention", attention_json(*gpt, prompt, run.tables)}});
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  log.add("reading", {{"seconds", rounded(seconds.count())}});
}

}  // namespace rowgrad
