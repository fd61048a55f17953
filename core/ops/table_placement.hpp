#pragma once

// Which rows of tables are read.

#include <cstdint>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// Rows of a table that will be read. Ids may repeat.
struct TableLookup {
  const Parameter* table;
  std::vector<std::int32_t> ids;
};

}  // namespace rowgrad
