#include "node/service_addresses.h"

#include <charconv>
#include <cstdlib>

#include "farside/base/error.h"

#include "base/assert.h"
#include "net/socket.h"
#include "node/time_limits.h"
#include "service/service_socket.h"
#include "team/environment.h"
#include "team/succession/coordinator_finder.h"

namespace farside::node {

namespace {

constexpr Duration kLook = std::chrono::milliseconds(5);

// The part of the addresses that each rank has: a word that tells the length of its own address, written last, and that
// address.
constexpr std::uint64_t kMaxAddressBytes = 256;
constexpr std::uint64_t kAddressOffset = sizeof(ControlWord);

/// Returns the address at which the nodes meet, or would meet if this machine's process coordinated them.
std::string meeting() {
  if (const char* const own = ::secure_getenv(team::kListenVariable); own != nullptr && *own != '\0') return own;
  const char* const way = ::secure_getenv(team::kCoordinatorVariable);
  if (way == nullptr) {
    throw Error(
        {"serve", "in a node", std::string(team::kCoordinatorVariable) + " is not set", "start it by farside up"});
  }
  return team::CoordinatorFinder(way).find();
}

std::string own_address(unsigned port_offset) {
  const std::string address = meeting();
  const std::size_t digits = address.rfind(':') + 1;
  unsigned port = 0;
  std::from_chars(address.data() + digits, address.data() + address.size(), port);
  return net::own_host_towards(address) + ":" + std::to_string(port + port_offset);
}

std::unique_ptr<team::SymmetricRegion> tell(team::Team& team, std::string_view service, const std::string& own) {
  assert_that(own.size() <= kMaxAddressBytes, "a numeric address and its port have room in their part");
  auto addresses = team.allocate("addresses of " + std::string(service), kAddressOffset + kMaxAddressBytes);
  addresses->local().copy_in(kAddressOffset, std::as_bytes(std::span(own)));
  team.fabric().open_channel()->local_fence();
  addresses->local().word<ControlWord>(0).store(own.size());
  return addresses;
}

}  // namespace

net::Secret pool_secret() {
  const char* const file = ::secure_getenv(team::kSecretFileVariable);
  if (file == nullptr) {
    throw Error(
        {"serve", "in a node", std::string(team::kSecretFileVariable) + " is not set", "start it by farside up"});
  }
  return net::Secret::load(file);
}

ServiceAddresses::ServiceAddresses(const PoolDirectory& pool, team::Team& team, std::string_view service,
                                   unsigned first_port)
    : team_(team), own_{service::service_socket(pool.path(), service, team.rank())} {
  const std::uint64_t epoch = team.epoch();
  if (!net::is_host_local(meeting())) {
    own_.push_back(own_address(first_port + team.rank()));
    told_ = tell(team, service, own_.back());
  }
  const MutexLock lock(mutex_);
  epoch_ = epoch;
  for (team::Rank rank = 0; rank < team.size(); ++rank) {
    all_.push_back(told_ == nullptr ? service::service_socket(pool.path(), service, rank).string() : await(rank));
  }
}

std::vector<std::string> ServiceAddresses::all() const {
  const MutexLock lock(mutex_);
  const std::uint64_t epoch = team_.epoch();
  if (told_ == nullptr || epoch == epoch_) return all_;
  const auto channel = team_.fabric().open_channel();
  const Deadline deadline = team_.fabric().in(node::time_limits::kLearn);
  bool are_all_known = true;
  for (team::Rank rank = 0; rank < team_.size(); ++rank) {
    if (const auto address = told_by(rank, *channel, deadline)) {
      all_[rank] = *address;
    } else if (team_.alive(rank)) {
      are_all_known = false;  // it has just come back
    }
  }
  if (are_all_known) epoch_ = epoch;
  return all_;
}

std::optional<std::string> ServiceAddresses::told_by(team::Rank rank, Channel& channel, Deadline deadline) const {
  const RemoteRegion& told = told_->of(rank);
  const auto bytes = channel.load(told.word<ControlWord>(0), deadline);
  if (!bytes.done() || bytes.value == 0 || bytes.value > kMaxAddressBytes) return std::nullopt;
  std::string address(bytes.value, '\0');
  const LocalSpan into(address.data(), address.size());
  if (channel.read(into, told.span(kAddressOffset, address.size()), deadline) != Outcome::done) return std::nullopt;
  return address;
}

std::string ServiceAddresses::await(team::Rank rank) const {
  const auto channel = team_.fabric().open_channel();
  const Deadline deadline = team_.fabric().in(node::time_limits::kOthers);
  for (;;) {
    if (auto address = told_by(rank, *channel, deadline)) return std::move(*address);
    if (team_.is_vacant(rank)) return {};  // it tells when it comes
    if (!team_.alive(rank) || team_.fabric().now() > deadline.at) {
      throw Error({"learn where", "node " + std::to_string(rank) + " serves", "it does not tell",
                   "start all nodes with the same options"});
    }
    team_.fabric().sleep(kLook);
  }
}

}  // namespace farside::node
