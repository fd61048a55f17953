#include <nlohmann/json.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

// A handler for nlohmann/json's SAX parser, which continues as long as the handler's functions
// return true. (The library's own tree silently accepts duplicate keys, and does not say where a
// number is too large.)
class Json::Parser {
 public:
  explicit Parser(Json& root) : name_(root.name_), next_(&root) {}

  bool null() { return add(std::monostate()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t number) {
    return add(number);
  }  // called only for negative numbers
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
    check_runtime(is_new, *name_, ": duplicate key ", in_quotes(member->first));
    next_ = &member->second;
    next_->key_ = std::make_shared<const std::string>(member->first);
    return true;
  }

  bool parse_error(std::size_t bytes, const std::string&, const nlohmann::json::exception&) {
    refuse(bytes - 1, "not valid JSON");
  }
  bool parse_error(std::size_t bytes, const std::string&, const nlohmann::json::out_of_range&) {
    refuse(bytes - 1, "the number is too large for double precision");
  }

  [[noreturn]] void refuse(std::size_t byte, std::string_view problem) const {
    throw std::runtime_error(concat(*name_, ", byte ", byte, ": ", problem));
  }

 private:
  // Returns the value to fill: the root, the value of the last key, or a new array element.
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
    check_runtime(open_.size() < kDeepest, *name_, ": values are nested more than ", kDeepest,
                  " levels deep");
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
  const std::size_t zero = text.find('\0');  // nlohmann/json would stop here without an error
  if (zero != text.npos) parser.refuse(zero, "not valid JSON");
  nlohmann::json::sax_parse(text.begin(), text.end(), &parser);
}

template <class Kind>
const Kind& Json::get(std::string_view expected) const {
  const auto* value = std::get_if<Kind>(&value_);
  if (value == nullptr)
    throw std::runtime_error(concat(name_ ? *name_ : "JSON value",
                                    key_ ? concat(", at ", in_quotes(*key_)) : "", ": expected ",
                                    expected));
  return *value;
}

const Json::Members& Json::members() const { return get<Members>("an object"); }

const std::vector<Json>& Json::elements() const { return get<std::vector<Json>>("an array"); }

const std::string& Json::string() const { return get<std::string>("a string"); }

double Json::number() const {
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* negative = std::get_if<std::int64_t>(&value_))
    return static_cast<double>(*negative);
  return get<double>("a number");
}

bool Json::boolean() const { return get<bool>("true or false"); }

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

Json::Json(std::initializer_list<Member> members) : value_(Members()) {
  for (const Member& member : members) (*this)[member.key] = std::move(member.value);
}

Json& Json::operator[](const std::string& key) {
  if (value_.index() == 0) value_ = Members();
  auto* const members = std::get_if<Members>(&value_);
  check_argument(members != nullptr, "Json: cannot access the member ", in_quotes(key),
                 ", as the value is not an object");
  return (*members)[key];
}

void Json::push_back(Json element) {
  if (value_.index() == 0) value_ = std::vector<Json>();
  auto* const elements = std::get_if<std::vector<Json>>(&value_);
  check_argument(elements != nullptr, "Json::push_back: the value is not an array");
  elements->push_back(std::move(element));
}

// Converts the value to nlohmann::json, for printing.
template <class Tree>
Tree Json::tree() const {
  return std::visit(
      []<class Kind>(const Kind& value) -> Tree {
        if constexpr (std::is_same_v<Kind, Members>) {
          Tree all = Tree::object();
          for (const auto& [key, member] : value) all[key] = member.template tree<Tree>();
          return all;
        } else if constexpr (std::is_same_v<Kind, std::vector<Json>>) {
          Tree all = Tree::array();
          for (const Json& element : value) all.push_back(element.tree<Tree>());
          return all;
        } else if constexpr (std::is_same_v<Kind, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      value_);
}

std::string Json::dump(int indent) const {
  return tree<nlohmann::json>().dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_string(std::string_view text) {
  check_utf8("json_string", text);
  return nlohmann::json(text).dump(-1, ' ', true);
}

}  // namespace rowgrad
