#include "kv/service/service.h"

#include "kv/service/wall_time.h"

namespace farside::kv {

namespace {

constexpr Duration kRing = std::chrono::seconds(1);

// Versions that are reclaimed between two looks at what has come.
constexpr std::size_t kReclaimedAtOnce = 16;

std::unique_ptr<Fabric> make_fabric(const ServiceOptions& options) {
  auto fabric = make_host_fabric({.mode = fabric_mode_from_environment(), .remote_peers = options.remote_peers});
  fabric->connect(options.self, fabric->address());
  return fabric;
}

StoreSettings store_settings(const ServiceOptions& options, const Fabric& fabric) {
  StoreSettings settings = options.store;
  settings.ahead = wall_ahead_of(fabric);
  return settings;
}

std::unique_ptr<Journal> open_journal(const ServiceOptions& options, Store& store) {
  if (!options.journal) return nullptr;
  const Partition partition{options.self, static_cast<ServerNumber>(options.servers.size())};
  return std::make_unique<FileJournal>(*options.journal, partition, store);
}

}  // namespace

Service::Service(const ServiceOptions& options, const Secret& pool)
    : options_(options),
      fabric_(make_fabric(options)),
      memory_(fabric_->create_region("kv memory", options.store.bytes)),
      bells_(fabric_->create_region("kv bells", sizeof(AtomicWord))),
      own_bells_(fabric_->attach(options.self, bells_->handle())),
      bell_channel_(fabric_->open_channel()),
      channel_(fabric_->open_channel()),
      store_(*fabric_, *channel_, *memory_, store_settings(options, *fabric_)),
      journal_(open_journal(options, store_)),
      logged_(store_, journal_.get()),
      handler_(logged_),
      inbox_(*fabric_, *channel_, *bells_, 0, options.mailbox),
      server_(inbox_, [this](std::span<const std::byte> request) { return handler_.answer_or_hold(request); }),
      errands_([this] { wake(); }),
      others_(loop_, *fabric_, *channel_, errands_, kv_secret(pool), options.servers, options.mailbox),
      terminator_(*fabric_, logged_, others_, options.self, options.patience),
      clients_(loop_, *fabric_, inbox_, errands_, kv_secret(pool), welcome(),
               static_cast<PeerId>(options.servers.size()), options.listen) {
  server_.add_chore([this] { return errands_.run(); });
  server_.add_chore([this] { return store_.reclaim(kReclaimedAtOnce) != 0; });
  server_.add_chore([this] { return terminator_.step(); });
  server_.add_chore([this] {
    handler_.keep(inbox_);
    return logged_.step();
  });
}

Service::~Service() { loop_.stop(); }

Welcome Service::welcome() const {
  return {.greeting = ServiceGreeting::of(*fabric_, options_.remote_peers),
          .self = options_.self,
          .servers = options_.servers,
          .memory = memory_->handle(),
          .bells = bells_->handle(),
          .mailbox = options_.mailbox,
          .grace = options_.store.grace};
}

void Service::serve_until(const std::function<bool()>& ended) { server_.serve_until(ended); }

void Service::wake() {
  const std::lock_guard lock(ringing_);
  (void)bell_channel_->add_signal(own_bells_->word<AtomicWord>(0), 1, fabric_->in(kRing));  // it looks anyway, later
}

}  // namespace farside::kv
