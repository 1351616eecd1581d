#include "far/service/lender_service.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/memory.h"
#include "farside/fabric/host.h"

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr std::uint64_t kSlabBytes = LenderSettings{}.slab_bytes;
constexpr std::uint64_t kSpareBytes = 64U << 20U;  // that the machine keeps for others

SlabNumber slabs_of(const LenderOptions& options) {
  if (options.bytes < kSlabBytes) {
    throw UsageError({"lend", std::to_string(options.bytes) + " bytes", "memory is lent by 4 MiB", "lend more"});
  }
  return static_cast<SlabNumber>(options.bytes / kSlabBytes);
}

}  // namespace

bool MachineMemory::provide(SlabNumber slab) {
  if (available_memory_bytes() < slab_bytes_ + kSpareBytes) return false;
  populate(memory_, slab * slab_bytes_, slab_bytes_);
  return true;
}

void MachineMemory::take_back(SlabNumber slab) { release(memory_, slab * slab_bytes_, slab_bytes_); }

LenderService::LenderService(const LenderOptions& options, const net::Secret& pool)
    : options_(options),
      fabric_(service::make_service_fabric(options.self, options.remote_peers, far_secret(pool), options.listen)),
      memory_(fabric_->create_region("far memory", slabs_of(options) * kSlabBytes)),
      table_(fabric_->create_region("far table", table_bytes(slabs_of(options)))),
      bell_(*fabric_, options.self, *table_, offsetof(TableHead, bell)),
      channel_(fabric_->open_channel()),
      backing_(*memory_, kSlabBytes),
      lender_(*fabric_, *channel_, *table_, options.self, backing_, {.slabs = slabs_of(options)}),
      tasks_([this] { bell_.ring(); }),
      peers_(static_cast<PeerId>(options.nodes().size())),
      connected_(loop_, far_secret(pool), *this, options.listen) {}

LenderService::~LenderService() {
  loop_.stop();
  stop_answering(*fabric_);  // a client that read what is gone would take zeros for its pages
}

void LenderService::serve_until(const std::function<bool()>& ended) {
  while (!ended()) {
    const bool more_to_do = lender_.step();
    tasks_.run();  // after the bell was looked at: a thread that posts rings it
    end_parted_clients();
    if (!more_to_do) lender_.rest(fabric_->in(time_limits::kRest));
  }
}

// ---- Arrivals and departures

std::string LenderService::welcome() {
  return Welcome{.hello = service::ServiceHello::of(*fabric_, options_.remote_peers),
                 .self = options_.self,
                 .nodes = options_.nodes(),
                 .table = table_->handle(),
                 .memory = memory_->handle()}
      .encode();
}

service::ServiceClients::Refusal LenderService::handle(service::ServiceClients::Number number,
                                                       const std::string& message) {
  const LinkKind kind = kLinkMessages.kind_of(message);
  if ((kind == LinkKind::join) == joined_.contains(number)) return "it joins twice, or not first";
  if (kind == LinkKind::join) {
    join(number, kLinkMessages.text_of(message));
  } else if (kind == LinkKind::leave) {
    left_.insert(number);
  } else {
    return "its message is of a kind that clients do not send";
  }
  return {};
}

void LenderService::join(service::ServiceClients::Number number, const std::string& fabric) {
  const PeerId peer = peers_.connect(*fabric_, fabric);
  joined_.emplace(number, peer);
  tasks_.post([this, number, peer] { begin(number, peer); });
}

void LenderService::part(service::ServiceClients::Number number) {
  if (joined_.erase(number) == 0) return;
  const Parting how = left_.erase(number) != 0 ? Parting::left : Parting::gone;
  tasks_.post([this, number, how] {
    const auto client = clients_.extract(number);
    assert_that(!client.empty(), "a client that parts has begun");
    parted_.push_back({client.mapped(), how});
  });
}

// ---- The table

void LenderService::begin(service::ServiceClients::Number number, PeerId peer) {
  const Holder holder = lender_.welcome();
  clients_.emplace(number, Client{peer, holder});
  loop_.post([this, number, holder] {
    if (joined_.contains(number)) connected_.say(number, encode_joined(holder));
  });
}

// A client whose end is not certain in time is tried again: until then its slabs are not lent again.
void LenderService::end_parted_clients() {
  const Deadline deadline = fabric_->in(time_limits::kRevoke);
  std::erase_if(parted_, [this, deadline](const Parted& each) {
    try {
      if (lender_.end(each.client.holder, each.client.peer, each.how, deadline) != Outcome::done) {
        log_.warn("the access of a client that went could not be taken away in time");
        return false;
      }
    } catch (const Error& error) {
      log_.warn(error.what());
      return false;
    }
    loop_.post([this, peer = each.client.peer] { peers_.give_back(peer); });
    return true;
  });
}

}  // namespace farside::far
