#pragma once

// The headers that tests need. It is precompiled, so a test includes only this and internal
// headers.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoints.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/gradients.hpp"
#include "tests/support/published_data.hpp"
#include "tests/support/seconds_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/threads.hpp"
#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;
using namespace rowgrad::testing;
using nlohmann::json;
