// request_handler.h — what a server answers to a request, whatever carried it.
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kv/protocol/messages.h"

namespace farside::kv {

class RequestHandler {
 public:
  explicit RequestHandler(Store& store) : store_(store) {}

  /// Empty: nobody who speaks this protocol says that.
  [[nodiscard]] Message answer(std::span<const std::byte> request);

 private:
  [[nodiscard]] Message get(const Request& request);
  [[nodiscard]] Message scan(const Request& request) const;

  Store& store_;
  std::vector<std::vector<std::byte>> records_;  // of the get under way
};

}  // namespace farside::kv
