#include "tests/test.hpp"

namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
  Pieces pieces;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
  }
  return pieces;
}

TEST(Gpt2Split, MatchesThePattern) {
  for (const auto& [text, pieces] : std::map<std::string, Pieces>{
           {"", {}},
           {"Hello world", {"Hello", " world"}},
           {"abc123 456def", {"abc", "123", " 456", "def"}},
           {"a, b... (c)", {"a", ",", " b", "...", " (", "c", ")"}},
           // Contractions: lower case only, and not after a space or another symbol.
           {"I'm you're he'll we've it's can't I'd",
            {"I", "'m", " you", "'re", " he", "'ll", " we", "'ve", " it", "'s", " can", "'t", " I",
             "'d"}},
           {"I'M don'T", {"I", "'", "M", " don", "'", "T"}},
           {"'s", {"'s"}},
           {"'sx", {"'s", "x"}},
           {" 's", {" '", "s"}},
           {"''s", {"''", "s"}},
           {"'r 'v 'l '", {"'", "r", " '", "v", " '", "l", " '"}},
           // Before other text, the last of several whitespace characters is split off. A space
           // belongs to the next piece.
           {"a  b", {"a", " ", " b"}},
           {"a   b", {"a", "  ", " b"}},
           {"a\nb", {"a", "\n", "b"}},
           {"a\n\nb", {"a", "\n", "\n", "b"}},
           {"a \n b", {"a", " \n", " b"}},
           {"a\t b", {"a", "\t", " b"}},
           {"a \tb", {"a", " ", "\t", "b"}},
           {"a  ", {"a", "  "}},
           {" ", {" "}},
           {"\r\n\r\n", {"\r\n\r\n"}},
           {"  1", {" ", " 1"}},
           {"  !", {" ", " !"}},
           // Beyond ASCII: letters, numbers, whitespace, marks and symbols.
           {"naïve café", {"naïve", " café"}},
           {"мир世界", {"мир世界"}},
           {"x²½٣y", {"x", "²½٣", "y"}},
           {"e\u0301a", {"e", "\u0301", "a"}},
           {"a\u00A0b", {"a", "\u00A0", "b"}},
           {"a\u3000\u3000b", {"a", "\u3000", "\u3000", "b"}},
           {"a\u00A0 b", {"a", "\u00A0", " b"}},
           {"a\u180E b", {"a", "\u180E", " b"}},
           {" 🙂🙂!a", {" 🙂🙂!", "a"}},
           {std::string("a\0b", 3), {"a", std::string("\0", 1), "b"}},
           // Words of about eight letters, because eight letters are scanned at once.
           {"abcdefg abcdefgh abcdefghi ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            {"abcdefg", " abcdefgh", " abcdefghi", " ABCDEFGHIJKLMNOPQRSTUVWXYZ"}},
           {"abcdefgé12345678", {"abcdefgé", "12345678"}},
           {"abcdefgh`abcdefgh{abcdefgh@abcdefgh[x",
            {"abcdefgh", "`", "abcdefgh", "{", "abcdefgh", "@", "abcdefgh", "[", "x"}},
           // Invalid bytes count as symbols.
           {"a\xFF\xC3 \xFFz", {"a", "\xFF\xC3", " \xFF", "z"}},
           {"a\xE4\xB8", {"a", "\xE4\xB8"}},
       })
    EXPECT_EQ(split(text), pieces) << in_quotes(text);
}

}  // namespace
