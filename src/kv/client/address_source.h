// address_source.h — GET* of the paper (section 3.2): a client remembers where each key's newest record was and READs
// it there; its mark tells whether it is the newest still. Otherwise the server is asked.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/client/place_cache.h"
#include "kv/client/search.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/server_memory.h"

namespace farside::kv {

class AddressSource final : public VersionSource {
 public:
  AddressSource(Channel& channel, ServerMemories servers, VersionSource& fallback, std::size_t cached_keys,
                const KvRules& rules = {})
      : channel_(channel), servers_(servers), fallback_(fallback), addresses_(cached_keys), rules_(rules) {}

  Outcome find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) override;
  void forget_places() override { addresses_.clear(); }

 private:
  struct Address {
    std::uint64_t generation = 0;
    RecordPlace record;
  };

  [[nodiscard]] bool take(Search& search);
  Outcome ask(std::span<const Timestamp> candidates, Deadline deadline);

  Channel& channel_;
  ServerMemories servers_;
  VersionSource& fallback_;
  PlaceCache<Address> addresses_;
  KvRules rules_;
  std::vector<Search*> read_;
  std::vector<Search*> asked_;
};

}  // namespace farside::kv
