// addresses.h — where the services of one kind of a pool are reached, by node. A node that comes back may have another
// address: its machine was replaced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "service/service_link.h"

namespace farside::service {

/// Returns the addresses as they are known now. Thread safety: any thread.
using AddressesNow = std::function<std::vector<std::string>()>;

/// The addresses as a client has been told them last. Thread safety: any thread.
class KnownAddresses {
 public:
  explicit KnownAddresses(std::vector<std::string> told) : size_(told.size()), addresses_(std::move(told)) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::string at(std::size_t node) const {
    const MutexLock lock(mutex_);
    return addresses_.at(node);
  }
  [[nodiscard]] std::vector<std::string> all_but(std::size_t node) const {
    const MutexLock lock(mutex_);
    std::vector<std::string> others = addresses_;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(node));
    return others;
  }
  /// Takes the list of a node, which need not know all. False: it is one of another pool, which has another number of
  /// nodes.
  [[nodiscard]] bool learn(const std::vector<std::string>& told) {
    const MutexLock lock(mutex_);
    if (told.size() != size_) return false;
    for (std::size_t node = 0; node < size_; ++node) {
      if (!told[node].empty()) addresses_[node] = told[node];
    }
    return true;
  }

 private:
  const std::size_t size_;
  mutable Mutex mutex_;
  std::vector<std::string> addresses_ GUARDED_BY(mutex_);
};

/// Asks the other nodes, one after the other until one answers, for the addresses, which are `list` of its welcome.
template <class Link, class Welcome>
void learn_addresses(KnownAddresses& known, std::size_t node, const net::Secret& secret,
                     std::vector<std::string> Welcome::*list) {
  for (const std::string& address : known.all_but(node)) {
    if (address.empty()) continue;
    try {
      const Link other(address, secret, net::SetupClock::now() + service::time_limits::kAskAddresses);
      if (known.learn(other.welcome().*list)) return;
    } catch (const Error&) {
      continue;  // the next one may know
    }
  }
}

}  // namespace farside::service
