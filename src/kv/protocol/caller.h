// caller.h — the session that asks: part of every request. Stands alone: requests and their answers include it.
#pragma once

#include <cstdint>

namespace farside::kv {

struct Caller {
  std::uint64_t session = 0;
  std::uint64_t settled = 0;  ///< up to this time all its transactions are done or given up, everywhere
};

}  // namespace farside::kv
