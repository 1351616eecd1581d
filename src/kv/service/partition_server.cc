#include "kv/service/partition_server.h"

#include <span>
#include <utility>

#include "base/assert.h"

namespace farside::kv {

namespace {

// Versions that are reclaimed between two looks at what has come.
constexpr std::size_t kReclaimedAtOnce = 16;

}  // namespace

PartitionServer::PartitionServer(Fabric& fabric, Channel& channel, const Region& memory, Inbox& inbox,
                                 const PartitionSettings& settings, const ServerRole& role)
    : fabric_(fabric),
      channel_(channel),
      settings_(settings),
      store_(fabric, channel, memory, settings.store, settings.rules),
      journal_(std::visit([this](const auto& each) { return begin(each); }, role)),
      logged_(store_, journal_.get()),
      handler_(logged_),
      server_(inbox, [this](std::span<const std::byte> request) -> Inbox::Said {
        if (!serves()) return Message{};  // no client asks a standby
        return handler_.answer_or_hold(request);
      }) {
  server_.add_chore([this] { return store_.reclaim(kReclaimedAtOnce) != 0; });
  if (standby_) server_.add_chore([this] { return follow_primary(); });
  server_.add_chore([this, &inbox] {
    handler_.keep(inbox);
    const bool more_to_do = logged_.step();
    look_after_standby();
    return more_to_do;
  });
}

std::unique_ptr<Journal> PartitionServer::begin(const SoleServer& role) {
  if (!role.journal) return nullptr;
  return std::make_unique<FileJournal>(*role.journal, settings_.partition, store_);
}

std::unique_ptr<Journal> PartitionServer::begin(const PrimaryServer& role) { return begin_shipping(role); }

std::unique_ptr<ShippingJournal> PartitionServer::begin_shipping(const PrimaryServer& role) {
  auto shipping = std::make_unique<ShippingJournal>(fabric_, channel_, role.standby, role.is_standby_dead,
                                                    role.reach_again, settings_.replica_rules, role.shipping);
  shipping_ = shipping.get();
  standing_ = shipping->standing();
  primary_ = role;
  return shipping;
}

std::unique_ptr<Journal> PartitionServer::begin(const StandbyServer& role) {
  words_.emplace(fabric_, channel_, role.leases, role.cut_off, settings_.replica_rules, role.timeouts);
  standby_.emplace(channel_, role.ring, store_, settings_.partition.server, role.begins, *words_, role.is_primary_dead,
                   role.take_primarys_access, settings_.replica_rules, role.disk);
  note_given_up_ = role.note_given_up;
  auto shipping = begin_shipping(role.promoted);
  if (role.disk == nullptr) return shipping;
  auto copies = std::make_unique<CopiesJournal>(*role.disk, std::move(shipping), settings_.replica_rules);
  copies_ = copies.get();
  if (role.goes_on) {
    standby_->serve(role.disk->recover(store_));
    begin_to_serve();
  } else {
    role.disk->prepare_to_copy(store_);
  }
  return copies;
}

void PartitionServer::begin_to_serve() {
  shipping_->begin_to_serve();
  if (copies_ != nullptr) copies_->begin_to_serve(epoch());
}

void PartitionServer::ask_others_by(Requests& servers) {
  assert_that(!terminator_, "the others are reached in one way");
  terminator_.emplace(fabric_, logged_, servers, settings_.partition.server, settings_.termination_timeout);
  server_.add_chore([this] { return serves() && terminator_->step(); });
}

EpochWords& PartitionServer::epoch_words() {
  assert_that(words_.has_value(), "a standby has words of clients, and no other server");
  return *words_;
}

bool PartitionServer::follow_primary() {
  const bool had_given_up = standby_->has_given_up();
  const bool did_serve = standby_->serves();
  was_busy_ = standby_->step();
  if (standby_->has_given_up() && !had_given_up) note_given_up_(standby_->flaw());
  if (standby_->serves() && !did_serve) begin_to_serve();
  return was_busy_;
}

void PartitionServer::look_after_standby() {
  if (shipping_ == nullptr || !serves()) return;
  note_standing();
  if (standing_ != ShippingJournal::Standing::alone || logged_.owes() || !primary_->find_another) return;
  const std::uint64_t store_number = copies_ == nullptr ? 0 : copies_->store_number();
  if (copies_ != nullptr && store_number == 0) return;
  if (const auto way = primary_->find_another()) {
    const auto retract = [this] {
      const bool is_claimed = copies_ == nullptr || copies_->claim_to_be_followed();
      return is_claimed && primary_->retract_alone();
    };
    shipping_->teach(*way, store_, epoch(), retract, store_number);
  }
  note_standing();
}

void PartitionServer::note_standing() {
  const auto now = shipping_->standing();
  if (std::exchange(standing_, now) != now) primary_->note_standing(now, shipping_->standby_gave_up());
}

}  // namespace farside::kv
