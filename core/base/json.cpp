#include <utility>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

// nlohmann/json calls these functions, its "SAX" interface, in order and continues if they return
// true. Its own tree keeps the last of several members with one key, and does not say where a
// number is too large.
class Json::Parser {
 public:
  explicit Parser(Json& root) : name_(root.name_), next_(&root) {}

  bool null() { return add(std::monostate()); }
  bool boolean(bool) { return add(std::monostate()); }
  bool number_integer(std::int64_t number) { return add(static_cast<double>(number)); }  // negative
  bool number_unsigned(std::uint64_t number) { return add(number); }
  bool number_float(double number, const std::string&) { return add(number); }
  bool string(std::string& text) { return add(std::move(text)); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // not part of JSON
  bool start_object(std::size_t) { return open(Members()); }
  bool start_array(std::size_t) { return open(std::vector<Json>()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& text) {
    const auto [member, is_new] =
        std::get<Members>(open_.back()->value_).try_emplace(std::move(text));
    check_runtime(is_new, *name_, ": the key ", in_quotes(member->first), " is there twice");
    next_ = &member->second;
    next_->key_ = &member->first;
    return true;
  }

  bool parse_error(std::size_t bytes, const std::string&, const nlohmann::json::exception&) {
    refuse(bytes - 1, "not valid JSON");
  }
  bool parse_error(std::size_t bytes, const std::string&, const nlohmann::json::out_of_range&) {
    refuse(bytes - 1, "a number too large");
  }

  [[noreturn]] void refuse(std::size_t byte, std::string_view problem) const {
    throw std::runtime_error(concat(*name_, ", byte ", byte, ": ", problem));
  }

 private:
  // The root, the value of the last key, or else an element of the array that is open.
  Json& next() {
    if (next_ != nullptr) return *std::exchange(next_, nullptr);
    Json& element = std::get<std::vector<Json>>(open_.back()->value_).emplace_back();
    element.key_ = open_.back()->key_;
    return element;
  }

  template <class Value>
  bool add(Value&& value) {
    last_ = &next();
    last_->name_ = name_;
    last_->value_ = std::forward<Value>(value);
    return true;
  }

  template <class Value>
  bool open(Value&& value) {
    constexpr std::size_t kDeepest = 64;
    check_runtime(open_.size() < kDeepest, *name_, ": values are nested too deep");
    add(std::forward<Value>(value));
    open_.push_back(last_);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::shared_ptr<const std::string> name_;
  Json* next_;
  Json* last_ = nullptr;
  std::vector<Json*> open_;  // objects and arrays, innermost last
};

Json::Json(std::string_view text, std::string name)
    : name_(std::make_shared<const std::string>(std::move(name))) {
  Parser parser(*this);
  const std::size_t zero = text.find('\0');  // which the library takes for the end of the text
  if (zero != text.npos) parser.refuse(zero, "not valid JSON");
  nlohmann::json::sax_parse(text.begin(), text.end(), &parser);
}

template <class Kind>
const Kind& Json::get(std::string_view expected) const {
  const auto* value = std::get_if<Kind>(&value_);
  if (value == nullptr)
    throw std::runtime_error(
        concat(*name_, key_ ? concat(", at ", in_quotes(*key_)) : "", ": expected ", expected));
  return *value;
}

const Json::Members& Json::members() const { return get<Members>("an object"); }

const std::vector<Json>& Json::elements() const { return get<std::vector<Json>>("an array"); }

const std::string& Json::string() const { return get<std::string>("a string"); }

double Json::number() const {
  const auto* whole = std::get_if<std::uint64_t>(&value_);
  return whole != nullptr ? static_cast<double>(*whole) : get<double>("a number");
}

std::uint64_t Json::whole_number() const { return get<std::uint64_t>("a whole number below 2^64"); }

const Json* Json::find(std::string_view key) const {
  const auto found = members().find(key);
  return found != members().end() ? &found->second : nullptr;
}

std::vector<std::string> Json::strings() const {
  std::vector<std::string> all;
  for (const Json& element : elements()) all.push_back(element.string());
  return all;
}

std::vector<std::uint64_t> Json::whole_numbers() const {
  std::vector<std::uint64_t> all;
  for (const Json& element : elements()) all.push_back(element.whole_number());
  return all;
}

std::string json_string(std::string_view text) {
  check_utf8("json_string", text);
  return nlohmann::json(text).dump(-1, ' ', true);
}

}  // namespace rowgrad
