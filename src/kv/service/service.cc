#include "kv/service/service.h"

#include <thread>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/fabric/host.h"

#include "kv/protocol/time_limits.h"
#include "kv/service/system_time.h"

namespace farside::kv {

namespace {

/// Those before it are servers and standbys (ServerLink::peer).
PeerId first_client(ServerNumber servers, const ServiceOptions& options) {
  return servers * (options.replica.standbys ? 2U : 1U);
}

/// As others know it, too.
PeerId own_number(ServerNumber servers, const ServiceOptions& options) {
  return options.replica.seat * servers + options.self;
}

}  // namespace

Service::Service(const ServiceOptions& options, const net::Secret& pool)
    : options_(options),
      servers_(static_cast<ServerNumber>(options.servers().size())),
      secret_(kv_secret(pool)),
      fabric_(
          service::make_service_fabric(own_number(servers_, options), options.remote_peers, secret_, options.listen)),
      memory_(fabric_->create_region("kv memory", options.store.bytes)),
      bells_(fabric_->create_region("kv bells", ServerLink::kBellsBytes)),
      bell_(*fabric_, own_number(servers_, options), *bells_, ServerLink::kBell),
      channel_(fabric_->open_channel()),
      inbox_(*fabric_, *channel_, *bells_, 0, options.mailbox),
      server_(*fabric_, *channel_, *memory_, inbox_, settings(), role()),
      tasks_([this] { bell_.ring(); }),
      others_(loop_, *fabric_, *channel_, tasks_, secret_, options.servers, options.replica.standbys,
              options.replica.is_dead, options.mailbox),
      standby_side_(standby_side()),
      clients_(loop_, *fabric_, inbox_, tasks_, secret_, welcome(), options.servers, options.replica.standbys,
               first_client(servers_, options), options.listen, standby_side_ ? &*standby_side_ : nullptr) {
  server_.add_chore([this] { return tasks_.run(); });
  server_.ask_others_by(others_);
  if (!copy_ || options.replica.goes_on) return;
  other_seat_.emplace(
      secret_, [this] { return other_address(); }, welcome());
  server_.add_chore([this] {
    look_at_other_seat();
    return false;
  });
}

Service::~Service() {
  if (to_standby_ != nullptr) to_standby_->leave();
  loop_.stop();
  stop_answering(*fabric_);  // a client that read what is gone would take its keys for absent
}

// ---- Copies

PartitionSettings Service::settings() const {
  PartitionSettings settings{.partition = {options_.self, servers_},
                             .store = options_.store,
                             .termination_timeout = options_.termination_timeout};
  settings.store.wall = kSystemTime;
  return settings;
}

ServerRole Service::role() {
  if (options_.replica.standbys && options_.journal) {
    copy_.emplace(*options_.journal, settings().partition, options_.replica.seat);
  }
  if (follows()) return stand_by();
  if (options_.replica.standbys) return ship_to_standby();
  if (options_.journal) DurableCopy::expect_none_in(options_.journal->directory);
  return SoleServer{options_.journal};
}

// One that was started again meanwhile is taught like any that comes later.
PrimaryServer Service::ship_to_standby() {
  const auto deadline = net::SetupClock::now() + options_.replica.limit;
  PrimaryServer primary = serve_alone();
  while (to_standby_ == nullptr) {
    try {
      standbys_address_ = other_address();
      to_standby_ = std::make_unique<ServerLink>(standbys_address_, secret_, deadline);
    } catch (const Error&) {  // it is about to listen
      if (net::SetupClock::now() > deadline) throw;
      std::this_thread::sleep_for(time_limits::kBetweenTries);
    }
  }
  if (to_standby_->welcome().has_nothing) {
    to_standby_.reset();
    return primary;
  }
  to_standby_->join(*fabric_, *channel_, false, deadline);
  standbys_ring_ = to_standby_->ship(options_.replica.incarnation, deadline);
  primary.standby = {standbys_ring_.get(), to_standby_->bell()};
  bells_->word<ControlWord>(ServerLink::kAlone).store(to_standby_->identity());
  return primary;
}

PrimaryServer Service::serve_alone() {
  bells_->word<ControlWord>(ServerLink::kAlone).store(ServerLink::kIsAlone);
  seeker_.emplace(
      *fabric_, secret_, [this] { return other_address(); }, welcome(),
      [this](std::uint16_t incarnation) { return is_other_dead(incarnation); });
  return {
      .standby = std::nullopt,
      .is_standby_dead = [this] { return is_standby_dead(); },
      .reach_again = [this] { return reach_standby_again(); },
      .note_standing = [this](ShippingJournal::Standing standing, bool gave_up) { note_standing(standing, gave_up); },
      .find_another = [this] { return find_another_standby(); },
      .retract_alone = [this] { return retract_alone(); },
      .shipping = {.min_copies = options_.replica.min_copies,
                   .bytes_per_second = options_.replica.copy_bytes_per_second,
                   .sync = time_limits::sync_timeout(options_.longest_silence),
                   .awaits_taking = copy_ && options_.journal->sync == SyncPolicy::always}};
}

std::string Service::other_address() const {
  const service::AddressesNow& addresses = options_.replica.seat == 0 ? options_.replica.standbys : options_.servers;
  return addresses().at(options_.self);
}

std::optional<ShippingJournal::Way> Service::find_another_standby() {
  auto found = seeker_->find();
  if (!found) return std::nullopt;
  is_standby_replaced_ = false;
  to_standby_ = std::move(found->link);
  standbys_ring_ = std::move(found->ring);
  standbys_address_ = found->address;
  return ShippingJournal::Way{standbys_ring_.get(), to_standby_->bell()};
}

// The process at the standby's address that holds the pool's secret names itself; the socket is not needed any more.
std::optional<ShippingJournal::Way> Service::reach_standby_again() {
  const std::string whose = "the standby of server " + std::to_string(options_.self);
  try {
    const ServerLink answers(standbys_address_, secret_, net::SetupClock::now() + time_limits::kReachAgain);
    // A process begins anew with nothing when what it was can never serve. Of another process others tell.
    const Welcome& now = answers.welcome();
    const Welcome& before = to_standby_->welcome();
    is_standby_replaced_ =
        now.has_nothing && now.incarnation == before.incarnation && identity_of(now) != identity_of(before);
    standbys_ring_ = to_standby_->ship_again(now);
  } catch (const Error& error) {
    log_.warn("the connection to " + whose + " broke, and there is no other yet: " + error.what());
    return std::nullopt;
  }
  log::warn("the connection to " + whose + " broke, and was made anew");
  return ShippingJournal::Way{standbys_ring_.get(), to_standby_->bell()};
}

void Service::note_standing(ShippingJournal::Standing standing, bool standby_gave_up) {
  const std::string server = "server " + std::to_string(options_.self);
  switch (standing) {
    case ShippingJournal::Standing::alone:
      bells_->word<ControlWord>(ServerLink::kAlone).store(ServerLink::kIsAlone);  // for which clients wait
      retracted_.reset();
      to_standby_->hang_up();    // if it lives, it begins anew
      to_standby_->mark_lost();  // nothing of its memory is mapped any more
      log::warn("the standby of " + server +
                (standby_gave_up ? " has given up, as the log of its node says in detail;" : " is gone;") +
                " its keys have one copy now");
      break;
    case ShippingJournal::Standing::taught: log::info("another standby of " + server + " is given a copy"); break;
    case ShippingJournal::Standing::full: log::warn("the keys of " + server + " have two copies again"); break;
  }
}

// A reader that found it alone just before may rely on that for the time of a lease.
bool Service::retract_alone() {
  if (!retracted_) {
    bells_->word<ControlWord>(ServerLink::kAlone).store(to_standby_->identity());
    channel_->local_fence();
    retracted_ = fabric_->now();
  }
  return !options_.remote_peers || fabric_->now() - *retracted_ >= outlasting(kLease);
}

StandbyServer Service::stand_by() {
  const bool may_go_on = copy_.has_value();
  say_whether_it_gave_up(options_.replica.has_nothing && !may_go_on);  // no client waits for one that is not taught
  ring_ = fabric_->create_region("kv changes of the primary", options_.replica.ring_bytes);
  std::optional<EpochWords::Leases> leases;
  if (options_.remote_peers) leases = EpochWords::Leases{bells_->word<ControlWord>(ServerLink::kEpoch)};
  return {.ring = *ring_,
          .begins = options_.replica.has_nothing ? ShippedLog::Begins::empty : ShippedLog::Begins::full,
          .leases = leases,
          .cut_off = [this](PeerId client) { return cut_off(client); },
          .is_primary_dead = [this] { return is_primary_dead(); },
          .take_primarys_access = [this] { return take_primarys_access(); },
          .note_given_up = [this](std::string_view flaw) { note_given_up(flaw); },
          .promoted = serve_alone(),
          .timeouts = {},
          .disk = copy_ ? &*copy_ : nullptr,
          .goes_on = options_.replica.goes_on};
}

std::optional<StandbySide> Service::standby_side() {
  if (!follows()) return std::nullopt;
  return StandbySide{.ring = *ring_,
                     .words = server_.epoch_words(),
                     .epoch = [this] { return server_.epoch(); },
                     .note_primary =
                         [this](StandbySide::Primary process, StandbySide::PrimaryIs what) {
                           const bool has_left =
                               what == StandbySide::PrimaryIs::leaving || (primary_ && primary_->has_left);
                           primary_ = {process, what, fabric_->now(), has_left};
                           succession_.reset();
                           if (other_seat_) other_seat_->stop();
                           if (what == StandbySide::PrimaryIs::shipping) say_whether_it_gave_up(false);
                         }};
}

bool Service::cut_off(PeerId client) {
  log::warn("the standby of server " + std::to_string(options_.self) + " cut off a client that does not answer");
  const bool has_none = fabric_->revoke(client, fabric_->in(time_limits::kTakeAccess)) == Outcome::done;
  if (!has_none) log::warn("and it could not in time; it serves when the client has ended");
  return has_none;
}

// One that is about to end is let: a process that is killed is taken for one that failed.
bool Service::take_primarys_access() {
  (void)tasks_.run();  // what it has said last
  if (!dead_since_) dead_since_ = fabric_->now();
  const bool is_ending = primary_ && primary_->is != StandbySide::PrimaryIs::gone;
  if (is_ending && fabric_->now() - *dead_since_ < time_limits::kEnding) return false;
  const std::string name = "server " + std::to_string(options_.self);
  if (primary_ && !primary_->has_left &&
      fabric_->revoke(primary_->process.peer, fabric_->in(time_limits::kTakeAccess)) != Outcome::done) {
    log::warn("the access of " + name + " could not be taken away in time");
    return false;
  }
  const bool may_have_all = !options_.replica.has_nothing || server_.is_full_standby();
  log::warn(name + (may_have_all ? " is gone; its standby, which has the only copy of its keys now, takes its place"
                                 : " is gone, which was giving its standby a copy of its keys"));
  return true;
}

void Service::note_given_up(std::string_view flaw) {
  log::error("the standby of server " + std::to_string(options_.self) + " has given up: " + std::string(flaw) +
             "; what that server has is not kept here any more");
  say_whether_it_gave_up(true);
}

void Service::say_whether_it_gave_up(bool did) { bells_->word<ControlWord>(ServerLink::kGaveUp).store(did ? 1 : 0); }

Welcome Service::welcome() const {
  return {.hello = service::ServiceHello::of(*fabric_, options_.remote_peers),
          .self = options_.self,
          .seat = options_.replica.seat,
          .incarnation = options_.replica.incarnation,
          .has_nothing = options_.replica.has_nothing,
          .goes_on = options_.replica.goes_on,
          .waits = copy_ && !options_.replica.goes_on,
          .claim = copy_ ? copy_->claim() : CopyClaim{},
          .servers = {},
          .standbys = {},
          .memory = memory_->handle(),
          .bells = bells_->handle(),
          .mailbox = options_.mailbox,
          .grace = options_.store.grace,
          .longest_silence = options_.longest_silence};
}

// Both processes have nothing in memory, and neither begins to serve but by this: so what their disks claim is what
// there is.
void Service::look_at_other_seat() {
  if (primary_) return;
  const auto other = other_seat_->waiting();
  if (!other) return look_whether_other_is_gone();
  if (succession_ && succession_->other == other->claim) return;
  const bool is_first = options_.replica.seat == 0;
  const CopyClaim own = copy_->claim();
  const CopyClaim& first = is_first ? own : other->claim;
  const CopyClaim& second = is_first ? other->claim : own;
  const bool is_new = options_.replica.incarnation == 0 && other->incarnation == 0;
  succession_ = {successor_of(first, second, is_new), other->claim,
                 "its first copy is " + to_string(first) + ", its second " + to_string(second)};
  say_whether_it_gave_up(succession_->successor == Successor::neither);
}

// No other copy has more than one that is alone. The process that had the other seat is dead for certain, and none has
// come in its place: so none serves there.
void Service::look_whether_other_is_gone() {
  const bool may_go_on = copy_->claim().standing == CopyStanding::alone && options_.replica.is_gone &&
                         options_.replica.is_gone(options_.self, 1 - options_.replica.seat);
  if (!may_go_on) return gone_since_.reset();
  if (!gone_since_) gone_since_ = fabric_->now();
  const bool is_decided = succession_ && succession_->successor != Successor::neither;
  if (is_decided || fabric_->now() - *gone_since_ < time_limits::kOtherSeat) return;
  const Successor self = options_.replica.seat == 0 ? Successor::first_seat : Successor::second_seat;
  succession_ = {self, {}, "the copy here is " + to_string(copy_->claim()) + ", and the other server is gone"};
}

bool Service::is_standby_dead() const {
  return is_standby_replaced_ || is_other_dead(to_standby_->welcome().incarnation);
}

// One that has nothing has no primary before that ships. The others begin together with theirs.
bool Service::is_primary_dead() const {
  if (!primary_ && options_.replica.has_nothing) return false;
  return is_other_dead(primary_ ? primary_->process.incarnation : options_.replica.incarnation);
}

// Its primary has hung up, and all that this had shipped until then is done: so it is known whether it has everything.
// Its death is told by others, and may be told later.
bool Service::is_of_no_use() const {
  if (!follows() || server_.serves()) return false;
  if (copy_ && server_.has_given_up()) return true;  // its disk, or its primary's, may have what it lacks
  if (is_primary_dead()) return false;
  const bool is_left = primary_ && primary_->is == StandbySide::PrimaryIs::gone &&
                       fabric_->now() - primary_->since >= time_limits::kEnding && server_.has_nothing_to_follow();
  return is_left && !server_.is_full_standby();
}

void Service::serve_until(const std::function<bool()>& ended) { server_.serve_until(ended); }

}  // namespace farside::kv
