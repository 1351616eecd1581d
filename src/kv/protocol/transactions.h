// transactions.h — which transactions are prepared at a server, and what became of the others as long as anybody may
// ask. Knows nothing of keys and versions but where the cells are.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "farside/base/mix.h"

#include "kv/protocol/store.h"

namespace farside::kv {

/// One that is prepared here.
struct PreparedHere {
  Time since;
  std::vector<ServerNumber> servers;
  std::vector<KeyId> keys;  ///< that it writes here
};

class Transactions {
 public:
  enum class Standing : std::uint8_t {
    unknown,
    prepared,
    committed,
    barred,  ///< given up, or settled and forgotten: it is not prepared any more
  };

  [[nodiscard]] Standing standing(const Timestamp& transaction) const;
  void add(const Timestamp& transaction, PreparedHere prepared) { prepared_.emplace(transaction, std::move(prepared)); }
  /// Of one that is prepared: it is committed from now on. Its keys.
  std::vector<KeyId> commit(const Timestamp& transaction);
  /// Of one that is not committed. The keys that it was prepared for.
  std::vector<KeyId> bar(const Timestamp& transaction);

  struct Settled {
    Timestamp timestamp;
    std::vector<KeyId> keys;
  };
  /// Forgets the session's transactions up to this one. Those of them that were committed.
  std::vector<Settled> settle(const Timestamp& up_to);
  [[nodiscard]] bool is_settled(const Timestamp& transaction) const;
  [[nodiscard]] std::vector<Doubtful> doubtful(Time before) const;

 private:
  struct Hash {
    std::size_t operator()(const Timestamp& timestamp) const {
      return mix(timestamp.time + timestamp.session * kMixStep);
    }
  };
  struct Ended {
    Standing standing;
    std::vector<KeyId> keys;  ///< when committed
  };
  struct Session {
    std::uint64_t settled = 0;
    std::map<std::uint64_t, Ended> ended;  ///< by time, those after `settled`
  };
  std::vector<KeyId> end(const Timestamp& transaction);
  void remember(const Timestamp& transaction, Ended ended);

  std::unordered_map<Timestamp, PreparedHere, Hash> prepared_;
  std::unordered_map<std::uint64_t, Session> sessions_;
};

}  // namespace farside::kv
