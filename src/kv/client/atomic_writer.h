// atomic_writer.h — writing a set of keys so that every reader sees all of it or nothing (docs/protocols/kv.md,
// "Writing a set of keys").
//
// Thread safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "farside/kv/session.h"

#include "kv/client/in_doubt.h"
#include "kv/protocol/caller.h"
#include "kv/protocol/messages.h"
#include "kv/protocol/rules.h"

namespace farside::kv {

class AtomicWriter {
 public:
  /// `grace`: what the servers' is at least. `siblings`: none: as it is cheapest.
  AtomicWriter(const Fabric& fabric, Requests& requests, HybridClock& clock, Caller& caller, Duration grace,
               std::optional<SiblingsKind> siblings, const KvRules& rules = {})
      : fabric_(fabric),
        requests_(requests),
        clock_(clock),
        caller_(caller),
        siblings_(siblings),
        rules_(rules),
        in_doubt_(fabric, requests, caller, grace),
        parts_(requests.servers()),
        together_(requests.servers()) {}

  /// Conditional writes (Write::expected) are all as expected, or nothing is written. After `differs` the caller may
  /// read and try again, after a while: another writer may be at it.
  /// Throws UsageError when a key stands twice, a key or a value is too long or too short, or one server would get more
  /// than a message holds.
  PutOutcome put_all(std::span<const Write> writes, Deadline deadline);
  /// Several puts, each as put_all does it, under way together. `ended` is called for each that has ended, and nothing
  /// of that put is used any more. Throws before anything is sent.
  void put_each(std::span<IndependentPut> puts, Deadline deadline, const PutEnded& ended);
  /// The last timestamp that the latest put had, or tried.
  [[nodiscard]] const Timestamp& last() const noexcept { return last_; }

 private:
  /// One of several puts.
  struct UnderWay {
    enum class Stage : std::uint8_t { to_begin, preparing, ending, over };

    IndependentPut* put;
    std::size_t first_id;  ///< of its keys', in ids_
    std::vector<ServerNumber> servers{};
    Stage stage = Stage::to_begin;
    std::size_t unanswered = 0;      ///< requests of its stage
    Answer prepared = Answer::done;  ///< or put: what counts of the servers' answers
    Answer ended = Answer::done;     ///< the same of commits and aborts
  };
  /// The part of one server in several puts.
  struct Together {
    std::vector<Message> requests{};                ///< that go there as one message, not sent yet
    std::vector<UnderWay*> puts{};                  ///< whose these are
    std::size_t bytes = 0;                          ///< of them
    std::deque<std::vector<UnderWay*>> unanswered;  ///< messages that were sent, oldest first
  };
  /// So that with what it stands in it fills no more than a slot of a mailbox.
  static constexpr std::size_t kMaxBytesTogether = std::size_t{24} << 10U;

  /// Appends the keys' ids to ids_.
  void check_all(std::span<const Write> writes);
  /// Throws UsageError when one server would get more than a message holds. `ids`: of the writes' keys.
  void check_parts(std::span<const Write> writes, std::span<const KeyId> ids);
  /// Sends a request that the server is waited for. Returns false when that fails: then it is silent.
  [[nodiscard]] bool ask(ServerNumber server, const Message& request, Deadline deadline);
  /// None of `servers_` is silent and has part in as many transactions in doubt as may be.
  [[nodiscard]] bool may_ask_servers();
  [[nodiscard]] bool has_silent_server(std::span<const KeyId> ids) const;
  void put_together(std::span<UnderWay> puts, Deadline deadline, const PutEnded& ended);
  /// Takes a put as far as it goes before the next answer.
  void advance(UnderWay& put, Deadline deadline);
  void begin(UnderWay& put, Deadline deadline);
  void end(UnderWay& put, Deadline deadline);
  /// False: it is to be begun again.
  [[nodiscard]] bool conclude(const UnderWay& put);
  void add(ServerNumber server, Message message, UnderWay& put, Deadline deadline);
  /// Sends all that was added for that server.
  void send(ServerNumber server, Deadline deadline);
  /// Takes the answers that come soon, and those that do not come by the deadline as unknown.
  void take_answers(Deadline deadline);
  void take_oldest(ServerNumber server, Deadline deadline);
  static void count(Answer answer, UnderWay& put);
  /// Among several servers' answers the one with the greatest weight decides: a refusal weighs more than an answer that
  /// did not come, since the server that refused has barred the transaction.
  [[nodiscard]] static int weight(Answer answer);
  /// None: that answer does not end a put.
  [[nodiscard]] static std::optional<PutOutcome> refusal(Answer answer);
  /// To the one server that has all keys.
  PutOutcome put_whole(ServerNumber server, std::span<const Write> writes, Deadline deadline);
  [[nodiscard]] Message encode_whole(std::span<const Write> writes) const;
  PutOutcome put_parts(Deadline deadline);
  Answer prepare(const Timestamp& timestamp, Deadline deadline);
  Answer prepare_at(std::span<const ServerNumber> servers, Request& request, Deadline deadline);
  bool tell(RequestKind kind, const Timestamp& timestamp, Deadline deadline);
  /// The views in it are valid until the next one. None: the server is silent, or out of its mind.
  [[nodiscard]] std::optional<Reply> receive(ServerNumber server, Deadline deadline);
  [[nodiscard]] Answer take(const std::optional<Reply>& reply);
  [[nodiscard]] SiblingsKind siblings_kind() const;
  /// The writes that were split are all at one server.
  [[nodiscard]] bool is_whole() const { return servers_.size() == 1; }
  void split(std::span<const Write> writes, std::span<const KeyId> ids);
  void order_servers();

  const Fabric& fabric_;
  Requests& requests_;
  HybridClock& clock_;
  Caller& caller_;
  const std::optional<SiblingsKind> siblings_;  // none: as it is cheapest
  KvRules rules_;
  Timestamp last_;
  InDoubtTransactions in_doubt_;
  struct Part {
    std::vector<Write> writes;
    std::size_t bytes = 0;   ///< as a message
    bool is_silent = false;  ///< what the server was asked last it did not answer
  };
  std::vector<Part> parts_;            // by server
  std::vector<ServerNumber> servers_;  // that have a part, in the order in which they are asked to prepare
  std::vector<KeyId> keys_;            // of what was split
  std::vector<KeyId> ids_;             // of the puts' keys
  std::vector<KeyId> sorted_;
  Message reply_;                   // the latest
  std::vector<Together> together_;  // by server
};

}  // namespace farside::kv
