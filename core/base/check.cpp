#include <locale>
#include <stdexcept>
#include <utility>

#include <rowgrad/core/base/check.hpp>

namespace rowgrad {

StringStream::StringStream() {
  exceptions(std::ios::badbit);
  imbue(std::locale::classic());  // files must not depend on the program's locale
}

std::string join(std::initializer_list<StringPiece> pieces) {
  StringStream text;
  for (const StringPiece& piece : pieces) text << piece;
  return std::move(text).str();
}

void throw_invalid_argument(std::initializer_list<StringPiece> pieces) {
  throw std::invalid_argument(join(pieces));
}

void throw_logic_error(std::initializer_list<StringPiece> pieces) {
  throw std::logic_error(join(pieces));
}

void throw_runtime_error(std::initializer_list<StringPiece> pieces) {
  throw std::runtime_error(join(pieces));
}

}  // namespace rowgrad
