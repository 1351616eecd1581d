// request_handler.h — what a server answers to a request, whatever carried it.
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kv/protocol/inbox.h"
#include "kv/protocol/messages.h"
#include "kv/server/logged_store.h"

namespace farside::kv {

class RequestHandler {
 public:
  explicit RequestHandler(LoggedStore& store) : store_(store.store()), changes_(store) {}

  /// Empty: the request is not of this protocol.
  [[nodiscard]] Message answer(std::span<const std::byte> request);
  /// The same. What depends on changes that are not kept yet is held until `keep`.
  [[nodiscard]] Inbox::Said answer_or_hold(std::span<const std::byte> request) {
    Message reply = answer(request);
    holds_ = holds_ || changes_.owes();  // and all that come after it, for the order's sake
    return {std::move(reply), holds_};
  }
  /// Has changes kept, once for all that came together, and then said. Takes note of the memory of `inbox`.
  void keep(Inbox& inbox);

 private:
  [[nodiscard]] Reply change(const Request& request, std::span<const std::byte> bytes);
  [[nodiscard]] Message answer_each(const Request& several);
  /// Candidates ascend.
  [[nodiscard]] Message get(const Request& request);
  [[nodiscard]] Message scan(const Request& request);
  [[nodiscard]] MemoryUse use() const;

  Store& store_;
  LoggedStore& changes_;
  bool holds_ = false;
  std::uint64_t ring_bytes_ = 0;
  std::vector<std::vector<std::byte>> records_;  // of the get under way
};

}  // namespace farside::kv
