#include <deque>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/json_reader.hpp>
#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDeepest = 64;

}  // namespace

// The tokens of the text. nlohmann/json calls these functions, its "SAX" interface, in order and
// continues if they return true. Its tree would take more memory, even while it is destroyed.
class JsonReader::Tokens {
 public:
  struct Object {};
  struct Array {};
  struct End {};    // of an object or array
  struct Other {};  // null or a boolean
  using Token = std::variant<Object, Array, End, Other, std::uint64_t, double, std::string>;

  explicit Tokens(const std::string& name) : name_(name) {}

  Token& at(std::size_t index) { return tokens_.at(index); }

  bool null() { return add(Other()); }
  bool boolean(bool) { return add(Other()); }
  bool number_integer(Json::number_integer_t number) {  // negative
    return add(static_cast<double>(number));
  }
  bool number_unsigned(Json::number_unsigned_t number) { return add(number); }
  bool number_float(Json::number_float_t number, const std::string&) { return add(number); }
  bool string(std::string& text) { return add(std::move(text)); }
  bool binary(Json::binary_t&) { return false; }  // not part of JSON
  bool start_object(std::size_t) { return open(Object()); }
  bool start_array(std::size_t) { return open(Array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& text) {
    add(std::move(text));
    const std::string_view key = std::get<std::string>(tokens_.back());
    check_runtime(keys_.back().insert(key).second, name_, ": the key ", in_quotes(key),
                  " is there twice");
    return true;
  }

  bool parse_error(std::size_t bytes, const std::string&, const Json::exception&) {
    refuse(bytes - 1, "not valid JSON");
  }
  bool parse_error(std::size_t bytes, const std::string&, const Json::out_of_range&) {
    refuse(bytes - 1, "a number too large");
  }

  [[noreturn]] void refuse(std::size_t byte, std::string_view problem) const {
    throw std::runtime_error(concat(name_, ", byte ", byte, ": ", problem));
  }

 private:
  template <class Value>
  bool add(Value&& value) {
    tokens_.emplace_back(std::forward<Value>(value));
    return true;
  }

  bool open(Token token) {
    check_runtime(keys_.size() < kDeepest, name_, ": values are nested too deep");
    keys_.emplace_back();
    return add(std::move(token));
  }

  bool close() {
    keys_.pop_back();
    return add(End());
  }

  const std::string& name_;
  std::deque<Token> tokens_;                      // a deque, so that references stay valid
  std::vector<std::set<std::string_view>> keys_;  // of the open objects and arrays, innermost last
};

JsonReader::JsonReader(std::string_view text, std::string name)
    : name_(std::move(name)), tokens_(std::make_unique<Tokens>(name_)) {
  const std::size_t zero = text.find('\0');  // which the library takes for the end of the text
  if (zero != text.npos) tokens_->refuse(zero, "not valid JSON");
  Json::sax_parse(text.begin(), text.end(), tokens_.get());
}

JsonReader::~JsonReader() = default;

template <class Kind>
Kind& JsonReader::take(std::string_view expected) {
  const auto token = std::get_if<Kind>(&tokens_->at(next_));
  if (!token) {
    const std::string where = key_ ? concat(", at ", in_quotes(*key_)) : "";
    throw std::runtime_error(concat(name_, where, ": expected ", expected));
  }
  ++next_;
  return *token;
}

bool JsonReader::ended() {
  const bool end = std::holds_alternative<Tokens::End>(tokens_->at(next_));
  if (end) ++next_;
  return end;
}

void JsonReader::object(const std::function<void(const std::string&)>& member) {
  take<Tokens::Object>("an object");
  const std::string* const outer_key = key_;
  while (!ended()) {
    key_ = &take<std::string>("a key");
    member(*key_);
  }
  key_ = outer_key;
}

void JsonReader::array(const std::function<void()>& element) {
  take<Tokens::Array>("an array");
  while (!ended()) element();
}

std::string JsonReader::string() { return std::move(take<std::string>("a string")); }

std::uint64_t JsonReader::whole_number() {
  return take<std::uint64_t>("a whole number below 2^64");
}

double JsonReader::number() {
  const bool whole = std::holds_alternative<std::uint64_t>(tokens_->at(next_));
  return whole ? static_cast<double>(whole_number()) : take<double>("a number");
}

void JsonReader::skip() {
  std::size_t open = 0;
  do {
    const Tokens::Token& token = tokens_->at(next_++);
    if (std::holds_alternative<Tokens::End>(token)) --open;
    if (std::holds_alternative<Tokens::Object>(token)) ++open;
    if (std::holds_alternative<Tokens::Array>(token)) ++open;
  } while (open > 0);
}

void check_json(std::string_view text, std::string name) { JsonReader(text, std::move(name)); }

std::string json_string(std::string_view text) {
  check_utf8("json_string", text);
  return Json(text).dump(-1, ' ', true);
}

}  // namespace rowgrad
