// served_mailbox.h — the server's side of one connection (mailbox.h).
//
// Whatever the client sends, the server neither waits for it nor keeps more for it than one request and a ring of
// replies. What no client would send ends the connection.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "kv/mailbox/mailbox.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

/// A server's, with a client that does not take a reply. An attempt takes time from the other clients.
struct ReplyTimeouts {
  Duration attempt = time_limits::kReply;
  /// Between two attempts, as long as the client has taken nothing; not less or more than this.
  Duration between_attempts = time_limits::kMinBetweenReplies;
  Duration most_between_attempts = time_limits::kMaxBetweenReplies;
  Duration give_up = time_limits::kUnread;
};

class ServedMailbox {
 public:
  ServedMailbox(Fabric& fabric, Channel& channel, const MailboxEnd& client, const MailboxShape& shape, Waking waking,
                const ReplyTimeouts& timeouts = {}, const MailboxRules& rules = {});

  enum class Came : std::uint8_t {
    nothing,
    piece,    ///< and there may be more
    request,  ///< to be replied to, in the order in which requests came
    end,      ///< of the connection: the client is lost, or out of its mind, or has taken nothing for long
  };
  Came poll();
  /// Until the next poll.
  [[nodiscard]] std::span<const std::byte> request() const noexcept { return request_; }
  /// At most kMaxMessageBytes. When `can_reply` holds, or just after the request came.
  void reply(Message reply);
  [[nodiscard]] bool can_reply() { return sender_.is_ready() || unstick(); }

 private:
  struct Outgoing {
    Message message;
    std::size_t sent = 0;
  };

  [[nodiscard]] Came take(const Parcel& parcel);
  [[nodiscard]] static bool is_request(const Parcel& parcel);
  [[nodiscard]] bool unstick();
  [[nodiscard]] bool send_piece(Outgoing& outgoing);
  void answer(const ParcelHead& head, std::span<const std::byte> piece);

  Fabric& fabric_;
  const MailboxShape shape_;
  const ReplyTimeouts timeouts_;
  MailboxSender sender_;
  MailboxReceiver receiver_;
  std::span<const std::byte> request_;
  std::size_t owed_ = 0;             ///< replies
  std::optional<Parcel> set_aside_;  ///< its answer comes after those
  Message incoming_;                 ///< a request that comes in pieces
  std::uint64_t missing_ = 0;        ///< of it
  std::deque<Outgoing> partial_;     ///< replies that did not end, the oldest first
  bool is_sound_ = true;
  std::optional<Time> stuck_since_;
  Time next_try_{};
};

}  // namespace farside::kv
