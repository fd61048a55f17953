#pragma once

// Formats a list of rows for spreadsheets and embedding viewers.

#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_list.hpp>

namespace rowgrad {

/// Returns a token with \n, \t, \r for these characters, <0xNN> for bytes of other control
/// characters and of invalid UTF-8, and a \ before each character in `escaped`.
std::string token_text(std::string_view token, std::string_view escaped);

/// Returns a line of titles and a line for each row: id, token, lookups, steps, gradient_norm,
/// norm, moved, learned. `token` is the row's label, escaped by token_text(). Unknown values are
/// empty.
///
/// With tabs, fields are never quoted (IANA's text/tab-separated-values). Quotes become \", because
/// many programs would start a quoted field. With another separator, tokens are quoted (RFC 4180).
/// Also, a \ precedes a leading =, +, - or @, because spreadsheets would read a formula.
std::string rows_text(const TableHistory& history, const std::vector<ListedRow>& rows,
                      const Tokenizer* tokenizer, char separator = '\t');

}  // namespace rowgrad
