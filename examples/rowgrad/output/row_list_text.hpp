#pragma once

// A list of rows as text, for spreadsheets and viewers of embeddings.

#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_list.hpp>

namespace rowgrad {

/// Returns a line of titles and a line for each row: id, token, lookups, steps, gradient_norm,
/// norm, moved, learned. `token` is the row's label, with \n, \t, \r and \\ for these characters,
/// and <0xNN> for bytes of other control characters and of invalid UTF-8. Unknown values are empty.
///
/// With tabs, fields are never quoted (IANA's text/tab-separated-values); quotes become \", as many
/// programs take them for the beginning of a quoted field. With another separator, tokens are in
/// quotes (RFC 4180), with a \ in front of a leading =, +, - or @, which spreadsheets would take
/// for a formula.
std::string rows_text(const TableHistory& history, const std::vector<ListedRow>& rows,
                      const Tokenizer* tokenizer, char separator = '\t');

}  // namespace rowgrad
