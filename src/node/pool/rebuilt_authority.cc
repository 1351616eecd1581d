#include "node/pool/rebuilt_authority.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <utility>

#include <fcntl.h>

#include "farside/base/error.h"

#include "authority/file_store.h"
#include "base/file_lock.h"
#include "base/signals_held.h"
#include "team/coordinator.h"
#include "team/decision_log.h"
#include "team/member_card.h"

namespace farside::node {

namespace {

constexpr const char* kStartAuthority = "start a pool's authority in";

FileLock lock(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  Fd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) throw errno_error("open", directory);
  auto held = FileLock::try_lock(std::move(opened), FileLock::Kind::exclusive, "lock", directory);
  if (!held) throw Error({kStartAuthority, directory, "one runs there already", "end it first"});
  return std::move(*held);
}

// The decisions go to a file of its own: the copy may still be written to.
void take_copy(const std::filesystem::path& copy, authority::FileStore& store) {
  if (!store.read().empty()) {
    throw Error({kStartAuthority, store.name(), "there are decisions already, of one that was started here before",
                 "leave --from out to go on with them, or remove the file"});
  }
  const std::vector<std::string> entries = authority::FileStore(copy).read();
  if (store.replace(entries) != authority::Kept::kept) throw Error({kStartAuthority, store.name(), store.why(), ""});
}

}  // namespace

void run_rebuilt_authority(const PoolDirectory& directory, const RebuiltAuthority& authority) {
  const SignalsHeld signals{SIGINT, SIGTERM};
  const FileLock held = lock(directory.authority());
  auto store = std::make_unique<authority::FileStore>(directory.authority() / "decisions");
  const net::Secret secret = net::Secret::load(authority.secret);
  if (authority.copy) take_copy(*authority.copy, *store);
  const team::LoggedTeam logged = team::read_team(store->read());
  team::MemberCard expected = team::MemberCard::of_this_process(0);
  expected.terms = logged.terms;
  for (const team::Rank rank : authority.lost) {
    if (rank < logged.team.size()) continue;
    throw UsageError({"take for lost", "node " + std::to_string(rank),
                      "the pool has " + std::to_string(logged.team.size()) + " nodes", ""});
  }
  const team::Coordinator coordinator(authority.listen, secret, logged.team.size(),
                                      team::MemberCard::admission(std::move(expected)),
                                      team::Coordinator::Log{.store = std::move(store),
                                                             .terms = logged.terms,
                                                             .is_copy = authority.copy.has_value(),
                                                             .ended = authority.lost},
                                      authority.silence);
  std::cout << "the pool of " << logged.team.size() << " nodes is coordinated at " << coordinator.address()
            << std::endl;
  (void)signals.wait();
}

}  // namespace farside::node
