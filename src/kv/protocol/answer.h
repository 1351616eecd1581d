// answer.h — how a server answers a request that changes something, and what it says became of a transaction.
//
// Stands alone: stores answer without knowing messages.
#pragma once

#include <cstdint>

#include "farside/kv/types.h"

namespace farside::kv {

enum class Answer : std::uint8_t {
  done,
  behind,   ///< a newer version is committed, or a conditional one prepared: prepare again, above `newest`
  full,     ///< no room; nothing was changed
  barred,   ///< the transaction was given up, or is settled
  unknown,  ///< no such transaction is prepared here, and none was committed
  differs,  ///< a key's newest version is not what was expected, or another session is about to write one
  /// The server cannot keep it at the moment, or never again; nothing was changed. Of a commit: it may be seen, and is
  /// to be repeated.
  unwritable,
  /// The server has fewer copies than it must have; nothing was changed. Of a commit: it is made there, and is not to
  /// be acknowledged.
  too_few_copies,
  refused,  ///< by the server, not by its store: the request makes no sense, or its reply would be too large
};

struct [[nodiscard]] Answered {
  Answer answer;
  Timestamp newest;  ///< what a prepare of the keys concerned must be above
};

/// The state of a transaction at one server.
enum class Fate : std::uint8_t { prepared, committed, aborted };

}  // namespace farside::kv
