// messages.h — what sessions and servers say to each other (docs/protocols/kv.md, "Messages").
//
// Decoding trusts nothing: every count and length is checked against what is there, and what does not fit is refused;
// what is not refused encodes to the same bytes again. The views in a decoded message point into the bytes that it was
// decoded from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/kv/types.h"

#include "kv/protocol/answer.h"
#include "kv/protocol/caller.h"
#include "kv/protocol/layout.h"
#include "kv/protocol/requests.h"
#include "kv/protocol/siblings.h"

namespace farside::kv {

using MessageView = std::span<const std::byte>;

enum class RequestKind : std::uint8_t {
  get,      ///< versions, with their places
  prepare,  ///< one server's part of a transaction
  commit,
  abort,
  put,   ///< a transaction of which one server has all keys
  fate,  ///< from server to server
  scan,
  use,
  several,  ///< changes (prepare, commit, abort, put), done and answered one after the other
};

/// A request as it is sent. Which fields count is a matter of its kind.
struct Request {
  RequestKind kind = RequestKind::get;
  std::uint64_t session = 0;
  std::uint64_t settled = 0;  ///< up to this time all transactions of the session are

  std::vector<std::string_view> keys{};  ///< get
  std::vector<Timestamp> candidates{};   ///< get: of each key the highest among these, or else the newest committed
  Timestamp timestamp{};                 ///< of the transaction
  Siblings siblings{};                   ///< prepare, put
  std::vector<ServerNumber> servers{};   ///< prepare
  std::vector<Write> writes{};           ///< prepare, put
  std::string_view prefix{};             ///< scan
  std::uint64_t cursor = 0;              ///< scan
  std::uint32_t about = 0;               ///< scan
  std::vector<MessageView> parts{};      ///< several: requests

  [[nodiscard]] static Request by(const Caller& caller, RequestKind kind) {
    return {.kind = kind, .session = caller.session, .settled = caller.settled};
  }
  [[nodiscard]] Message encode() const;
  [[nodiscard]] static std::optional<Request> decode(std::span<const std::byte> bytes);
};

/// A version in a reply. None was found if generation is 0.
struct ReplyVersion {
  std::uint64_t generation = 0;
  std::uint64_t place = 0;  ///< a RecordPlace: for GET*'s address cache
  std::span<const std::byte> record;
};

struct Reply {
  RequestKind kind = RequestKind::get;
  Answer answer = Answer::done;
  Timestamp newest{};                    ///< what a prepare must be above
  Timestamp forgotten{};                 ///< get: absent keys are so since then at the latest
  std::vector<ReplyVersion> versions{};  ///< get, in the order asked for
  Fate fate = Fate::aborted;
  std::vector<std::string_view> keys{};  ///< scan
  std::uint64_t next = 0;                ///< scan
  MemoryUse use{};
  std::vector<MessageView> parts{};  ///< several: a reply to each

  [[nodiscard]] Message encode() const;
  [[nodiscard]] static std::optional<Reply> decode(std::span<const std::byte> bytes);
};

}  // namespace farside::kv
