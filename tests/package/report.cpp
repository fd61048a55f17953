// A model of one's own, in a loop of one's own, whose rows are watched and shown, with nothing but
// the installed library: ratings as products of rows of users and films.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

#include <rowgrad/examples/report/run_report.hpp>
#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

struct Ratings : Layer {
  explicit Ratings(Random& random)
      : user(*this, "user", 40, 8, random), film(*this, "film", 100, 8, random) {}

  Variable loss(Tape& tape, const Ids& users, const Ids& films, const Tensor& stars) {
    const Variable product = user.forward(tape, users) * film.forward(tape, films);
    const Variable error = sum(product, {-1}) - tape.constant(stars);
    return mean(error * error);
  }

  // [namedrows]
  std::optional<RowNames> row_names(const Parameter& table) const override {
    if (&table == &user.weight) return RowNames{.noun = "user", .names = names_of_users};
    if (&table == &film.weight) return RowNames{.noun = "film"};
    return {};
  }
  // [namedrows]

  Part<Embedding> user;
  Part<Embedding> film;
  std::vector<std::string> names_of_users;  // none: they are numbered
};

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  Random random(1);
  Ratings model(random);
  AdamW optimizer(model.parameters(), {.learning_rate = 0.05});
  RunReport report(
      model, optimizer,
      {.page = argv[1], .data = concat(argv[1], ".json"), .about = R"({"program": "ratings"})"});
  double loss = 0, first = 0;
  for (int step = 0; step < 60; ++step) {
    Ids users = Ids::from_shape({16}), films = Ids::from_shape({16});
    Tensor stars = empty({16});
    for (std::size_t i = 0; i < 16; ++i) {
      users.data()[i] = static_cast<std::int32_t>(random.bits() % 30);  // 10 never rate
      films.data()[i] = static_cast<std::int32_t>(random.bits() % 50);
      stars.data()[i] = static_cast<real>((users.data()[i] + films.data()[i]) % 5);
    }
    // [watchedloop]
    optimizer.zero_grad();
    Tape tape;
    const Variable error = model.loss(tape, users, films, stars);
    tape.backward(error);
    report.after_backward(tape);
    report.before_update();
    optimizer.step();
    report.after_step(error.item());
    // [watchedloop]
    loss = error.item();
    if (step == 0) first = loss;
  }
  report.at_end();

  const auto& tables = report.rows().tables();
  std::uint64_t lookups = 0;
  for (const auto& row : tables.at(0).rows()) lookups += row.lookups;
  std::ifstream page(argv[1]);
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const bool right = loss < first && tables.size() == 2 && tables[0].touched() <= 30 &&
                     tables[0].ids().size() > 20 && lookups == 60 * 16 &&
                     text.find("</html>") != std::string::npos && tables[0].noun() == "user" &&
                     tables[1].noun() == "film";
  std::cout << (right ? "a page shows which users and films were learned\n"
                      : "the page is wrong\n");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
