#include <algorithm>
#include <array>
#include <iomanip>
#include <set>

#include <rowgrad/core/base/name_patterns.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {
Layer::~Layer() {
  if (owner_ != nullptr)
    std::erase_if(owner_->layers_, [this](const auto& part) { return part.second == this; });
  for (const auto& [name, layer] : layers_) layer->leave_owner();
  for (const auto& [name, buffer] : buffers_) buffer->owner_ = nullptr;
  for (const auto* parts : {&parameters_, &shared_})
    for (const auto& [name, parameter] : *parts) parameter->remove_user(*this);
}

Buffer::~Buffer() {
  if (owner_ != nullptr)
    std::erase_if(owner_->buffers_, [this](const auto& part) { return part.second == this; });
}

std::string Layer::claim(std::string_view name) const {
  check_argument(!name.empty() && name.find('.') == std::string_view::npos, "Layer: '", name,
                 "' is not a valid name, expected a nonempty name without a dot");
  const auto has = [name](const auto& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const auto& part) { return part.first == name; });
  };
  check_argument(!has(parameters_) && !has(shared_) && !has(buffers_) && !has(layers_), "Layer: '",
                 path_, name, "' is a duplicate name");
  return std::string(name);
}

void Layer::adopt(std::string_view name, Parameter& parameter) {
  std::string own_name = claim(name);
  parameter.add_user(*this);  // first, so that forget() is called if a later line throws
  parameters_.emplace_back(std::move(own_name), &parameter);
  parameter.rename(path_ + std::string(name));
}

void Layer::share(std::string_view name, Parameter& parameter) {
  std::string own_name = claim(name);
  parameter.add_user(*this);  // first, as in adopt()
  shared_.emplace_back(std::move(own_name), &parameter);
}

void Layer::forget(const Parameter& parameter) noexcept {
  for (auto* parts : {&parameters_, &shared_})
    std::erase_if(*parts, [&](const auto& part) { return part.second == &parameter; });
}

void Layer::adopt(std::string_view name, Buffer& buffer) {
  buffers_.emplace_back(claim(name), &buffer);
}

void Layer::adopt(std::string_view name, Layer& part) {
  layers_.emplace_back(claim(name), &part);
  part.owner_ = this;
  part.set_path(path_ + std::string(name) + ".");
  part.set_training(training_);
}

void Layer::set_path(std::string path) {
  path_ = std::move(path);
  for (const auto& [name, parameter] : parameters_) parameter->rename(path_ + name);
  for (const auto& [name, layer] : layers_) layer->set_path(path_ + name + ".");
}

void Layer::set_training(bool training) {
  training_ = training;
  for (const auto& [name, layer] : layers_) layer->set_training(training);
}

std::vector<Parameter*> Layer::parameters(std::string_view names) const {
  NamePatterns patterns(names);
  std::vector<Parameter*> chosen;
  std::set<const Parameter*> seen;
  for_each_layer([&](const Layer& layer) {
    for (const auto* parts : {&layer.shared_, &layer.parameters_})
      for (const auto& [name, parameter] : *parts)
        if (patterns.match(path_in_this(layer) + name) && seen.insert(parameter).second)
          chosen.push_back(parameter);
  });
  patterns.check_all_matched("Layer", "parameter");
  return chosen;
}

std::vector<Parameter*> Layer::parameters_on_tape() const {
  std::vector<Parameter*> all = parameters();
  for_each_layer([&](const Layer& layer) {
    for (const auto& [name, parameter] : layer.parameters_)
      std::ranges::replace(all, parameter, &layer.on_tape(*parameter));
  });
  return all;
}

std::size_t Layer::parameter_count() const {
  std::size_t count = 0;
  for (const Parameter* parameter : parameters_on_tape()) count += parameter->size();
  return count;
}

std::size_t Layer::trainable_parameter_count() const {
  const std::vector<Parameter*> own = parameters(), on_tape = parameters_on_tape();
  std::size_t count = 0;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i]->trainable()) count += on_tape[i]->size();
  return count;
}

// --- Saving and loading, and layers by name -----------------------------------------------------

std::string Layer::name_in_this(const Layer& layer) const {
  const std::string path = path_in_this(layer);
  return path.substr(0, path.size() - (path.empty() ? 0 : 1));  // without the dot
}

void Layer::set_trainable(std::string_view names, bool trainable) {
  for (Parameter* parameter : parameters(names)) parameter->set_trainable(trainable);
}

void Layer::share(std::string_view name, Layer& part) {
  check_argument(part.owner_ == nullptr, "Layer: '", path_, name,
                 "' is already a part of another layer");
  for (const Layer* owner = this; owner != nullptr; owner = owner->owner_)
    check_argument(owner != &part, "Layer: '", path_, name, "' would be a part of itself");
  adopt(name, part);
}

// Called when the owner is destroyed. Members are destroyed earlier, so this layer was shared.
void Layer::leave_owner() noexcept {
  owner_ = nullptr;
  try {
    set_path("");
  } catch (const std::bad_alloc&) {  // keep the old names
  }
}

void Layer::apply_deferred_steps() const {
  for (const Parameter* parameter : parameters()) parameter->value();
}

// Calls on_parameter(name, parameter) or on_buffer(name, buffer) for each parameter and buffer that
// this layer and its parts own, if its name matches.
void Layer::for_each_owned(std::string_view names, const auto& on_parameter,
                           const auto& on_buffer) const {
  NamePatterns patterns(names);
  for_each_layer([&](const Layer& layer) {
    const std::string path = path_in_this(layer);
    const auto offer = [&](const auto& parts, const auto& visit) {
      for (const auto& [name, part] : parts)
        if (patterns.match(path + name)) visit(path + name, part);
    };
    offer(layer.parameters_, on_parameter);
    offer(layer.buffers_, on_buffer);
  });
  patterns.check_all_matched("Layer", "parameter or buffer");
}

StateDict Layer::state_dict(std::string_view names) const {
  StateDict state;
  for_each_owned(
      names,
      [&](const std::string& name, const Parameter* part) { state.put(name, part->saved()); },
      [&](const std::string& name, const Buffer* part) { state.put(name, part->value()); });
  return state;
}

LoadReport Layer::load_state_dict(const StateDict& state, const LoadOptions& options) {
  LoadReport report;
  std::set<std::string> own;
  Named<Parameter> parameters;
  Named<Buffer> buffers;
  const auto choose = [&](auto& chosen, const std::string& name, auto* part) {
    own.insert(name);
    if (!state.contains(name)) return report.missing.push_back(name);
    chosen.emplace_back(name, part);
  };
  for_each_owned(
      options.names,
      [&](const std::string& name, Parameter* part) { choose(parameters, name, part); },
      [&](const std::string& name, Buffer* part) { choose(buffers, name, part); });
  NamePatterns patterns(options.names);
  for (const std::string& name : state.names())
    if (patterns.match(name) && !own.contains(name) &&
        !std::holds_alternative<std::string>(state.at(name)))
      report.unexpected.push_back(name);
  const auto quoted = [](const std::vector<std::string>& names) {
    return std::vector<InQuotes>(names.begin(), names.end());
  };
  check_argument(!options.strict || (report.missing.empty() && report.unexpected.empty()),
                 "Layer::load_state_dict: missing names: ", bracketed(quoted(report.missing)),
                 ", unexpected names: ", bracketed(quoted(report.unexpected)));
  for (const auto& [name, parameter] : parameters) parameter->check_saved(state, name);
  for (const auto& [name, buffer] : buffers) state.check_shape(name, buffer->shape());
  if (options.dry_run) return report;
  // Restore table files first, as this may fail. Other values are overwritten in place, which
  // cannot fail.
  for (const bool in_file : {true, false})
    for (const auto& [name, parameter] : parameters)
      if (std::holds_alternative<std::string>(state.at(name)) == in_file)
        parameter->load(state, name);
  for (const auto& [name, buffer] : buffers) state.copy_to(name, buffer->value_.storage());
  return report;
}

std::string RowNames::word() const {
  constexpr std::array<const char*, 5> kWords{"row", "token", "position", "distance", "n-gram"};
  return noun.empty() ? kWords.at(static_cast<std::size_t>(kind)) : noun;
}

std::optional<RowNames> Layer::row_names(const Parameter& /*table*/) const { return {}; }

RowNames Layer::resolve_row_names(const Parameter& table) const {
  RowNames names;
  for_each_layer([&](const Layer& layer) {
    const std::optional<RowNames> of_layer = layer.row_names(table);
    if (!of_layer) return;
    if (names.kind == RowKind::kRow) names.kind = of_layer->kind;
    if (names.noun.empty()) names.noun = of_layer->noun;
    if (names.names.empty()) names.names = of_layer->names;
    if (names.ngrams == nullptr) names.ngrams = of_layer->ngrams;
  });
  check_argument(names.names.empty() || names.names.size() == table.shape()[0], table.name(),
                 ": got ", names.names.size(), " row names, expected none or ", table.shape()[0]);
  return names;
}

// --- The summary --------------------------------------------------------------------------------

namespace {

// Returns 1234567 as "1,234,567".
std::string grouped(std::size_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string Layer::summary() const {
  struct Line {
    std::string name, shape, count;
  };
  std::vector<Line> lines{{"name", "shape", "parameters"}};
  std::set<const Parameter*> counted;
  for_each_layer([&](const Layer& layer) {
    for (const auto& [name, parameter] : layer.parameters_) counted.insert(parameter);
  });
  for_each_layer([&](const Layer& layer) {
    const auto count = [&](Parameter& parameter) {
      return grouped(layer.on_tape(parameter).size()) + (parameter.trainable() ? "" : " (frozen)");
    };
    const auto shape = [](const auto& part) { return concat(bracketed(part.shape())); };
    for (const auto& [name, parameter] : layer.shared_) {
      // A borrower shows the size only if the owner is not listed, so sizes add up to the total.
      const bool only_here = counted.insert(parameter).second;
      lines.push_back(
          {layer.path_ + name, shape(*parameter),
           (only_here ? count(*parameter) + ", " : "") + "tied to " + parameter->name()});
    }
    for (const auto& [name, parameter] : layer.parameters_)
      lines.push_back({layer.path_ + name, shape(layer.on_tape(*parameter)), count(*parameter)});
    for (const auto& [name, buffer] : layer.buffers_)
      lines.push_back({layer.path_ + name, shape(*buffer), "buffer"});
  });
  const std::size_t trainable = trainable_parameter_count();
  const std::size_t frozen = parameter_count() - trainable;
  lines.push_back(
      {"total", "",
       grouped(trainable) + (frozen == 0 ? "" : " trainable, " + grouped(frozen) + " frozen")});
  std::size_t name_width = 0;
  std::size_t shape_width = 0;
  for (const Line& line : lines) {
    name_width = std::max(name_width, line.name.size());
    shape_width = std::max(shape_width, line.shape.size());
  }
  StringStream text;
  text << std::left;
  for (const Line& line : lines)
    text << std::setw(static_cast<int>(name_width + 2)) << line.name
         << std::setw(static_cast<int>(shape_width + 2)) << line.shape << line.count << '\n';
  return std::move(text).str();
}

}  // namespace rowgrad
