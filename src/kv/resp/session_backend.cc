#include "kv/resp/session_backend.h"

#include <algorithm>
#include <limits>

namespace farside::kv {

std::optional<Scanned> SessionBackend::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) {
  Scanned scanned;
  const auto count =
      static_cast<std::uint32_t>(std::min<std::size_t>(about, std::numeric_limits<std::uint32_t>::max()));
  if (session_.scan(cursor, prefix, count, scanned, fabric_.in(patience_)) != Outcome::done) return std::nullopt;
  return scanned;
}

std::optional<std::vector<MemoryUse>> SessionBackend::use() {
  std::vector<MemoryUse> servers;
  if (session_.use(servers, fabric_.in(patience_)) != Outcome::done) return std::nullopt;
  return servers;
}

}  // namespace farside::kv
