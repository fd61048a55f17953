#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/data/tokenizers/special_tokens.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

Ids Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3);  // typical of text; growing in steps would double the page faults
  SpecialTokenSearch search(text, options.allowed_special, vocabulary_);
  std::size_t begin = 0;
  while (const auto special = search.next(begin)) {
    append_ids(text.substr(begin, special->begin - begin), options.offset + begin, ids);
    ids.push_back(special->id);
    begin = special->end;
  }
  append_ids(text.substr(begin), options.offset + begin, ids);
  return to_ids(ids);
}

std::size_t Tokenizer::last_cut(std::string_view text, const EncodeOptions& options) const {
  const SpecialTokenSearch search(text, options.allowed_special, vocabulary_);
  std::size_t place = text.size();
  while (place > 0 && --place > 0)
    if (can_cut(text, place) && !search.may_span(place)) return place;
  return 0;
}

void Tokenizer::save(const std::filesystem::path& path) const { write_file(path, to_json()); }

std::string Tokenizer::join(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token(id);
  return text;
}

}  // namespace rowgrad
