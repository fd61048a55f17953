// Logs the rows of a custom model in a custom training loop, with only the installed library. The
// model predicts the rating of a film by a user as the dot product of their rows.

#include <cstdlib>
#include <iostream>

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

  Submodule<Embedding> user;
  Submodule<Embedding> film;
  std::vector<std::string> names_of_users;  // empty: users are shown by their ids
};

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  Random random(1);
  Ratings model(random);
  AdamW optimizer(model.parameters(), {.learning_rate = 0.05});
  RunLog log(model, optimizer, argv[1], {.about = R"({"program": "ratings"})"});
  double loss = 0, first = 0;
  for (int step = 0; step < 60; ++step) {
    Ids users = Ids::from_shape({16}), films = Ids::from_shape({16});
    Tensor stars = empty({16});
    for (std::size_t i = 0; i < 16; ++i) {
      users.data()[i] = static_cast<std::int32_t>(random.bits() % 30);  // 30 of 40 users
      films.data()[i] = static_cast<std::int32_t>(random.bits() % 50);
      stars.data()[i] = static_cast<real>((users.data()[i] + films.data()[i]) % 5);
    }
    // [watchedloop]
    optimizer.zero_grad();
    Tape tape;
    const Variable error = model.loss(tape, users, films, stars);
    tape.backward(error);
    log.after_backward(tape);
    log.before_update();
    optimizer.step();
    log.after_step(error.item());
    // [watchedloop]
    loss = error.item();
    if (step == 0) first = loss;
  }
  log.at_end();

  const TableHistories tables = log.rows().tables();
  std::uint64_t lookups = 0;
  for (std::size_t place = 0; place < tables[0].ids().size(); ++place)
    lookups += tables[0].row(place).lookups;
  const bool right = loss < first && tables.size() == 2 && tables[0].touched() <= 30 &&
                     tables[0].ids().size() > 20 && lookups == 60 * 16 &&
                     log.first_error().empty() && tables[0].noun() == "user" &&
                     tables[1].noun() == "film";
  std::cout << (right ? "the log has the trained users and films\n" : "the log is wrong\n");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
