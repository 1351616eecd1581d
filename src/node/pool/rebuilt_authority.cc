#include "node/pool/rebuilt_authority.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <utility>

#include "farside/base/error.h"

#include "authority/file_store.h"
#include "base/file_lock.h"
#include "base/signals_held.h"
#include "net/socket.h"
#include "team/coordinator.h"
#include "team/decision_log.h"
#include "team/member_card.h"

namespace farside::node {

namespace {

constexpr const char* kStartAuthority = "start a pool's authority in";

// To a file of its own: the copy may still be written to. It is never there without its generation.
void take_copy(const std::string& head, const team::TeamState& state, authority::FileStore& store) {
  if (!store.read().empty()) {
    throw Error({kStartAuthority, store.name(), "there are decisions already, of one that was started here before",
                 "leave --from out to go on with them, or remove the file"});
  }
  const std::vector<std::string> begin{head, team::encode_decision(team::rebuilt(state))};
  if (store.replace(begin) != authority::Kept::kept) throw Error({kStartAuthority, store.name(), store.why(), ""});
}

std::vector<std::string> read_decisions(const std::filesystem::path& path) {
  std::vector<std::string> entries = authority::FileStore(path).read();
  if (entries.empty())
    throw UsageError({"read a pool's decisions in", path, "there are none", "name a copy with --from"});
  return entries;
}

void expect_nodes(const std::vector<team::Rank>& lost, team::Rank size) {
  for (const team::Rank rank : lost) {
    if (rank < size) continue;
    throw UsageError(
        {"take for lost", "node " + std::to_string(rank), "the pool has " + std::to_string(size) + " nodes", ""});
  }
}

}  // namespace

void run_rebuilt_authority(const PoolDirectory& directory, const RebuiltAuthority& authority) {
  const SignalsHeld signals{SIGINT, SIGTERM};
  const std::optional<FileLock> held = directory.lock_authority();
  if (!held) throw Error({kStartAuthority, directory.authority(), "one runs there already", "end it first"});
  const std::filesystem::path own = directory.authority() / "decisions";
  auto store = std::make_unique<authority::FileStore>(own);
  const net::Secret secret = net::Secret::load(authority.secret);
  const std::vector<std::string> decisions = read_decisions(authority.copy.value_or(own));
  const team::LoggedTeam logged = team::read_team(decisions);
  expect_nodes(authority.lost, logged.team.size());
  net::listen_on(authority.listen).reset();  // before anything is changed
  if (authority.copy) take_copy(decisions.front(), logged.team.state(), *store);
  team::MemberCard expected = team::MemberCard::of_this_process(0);
  expected.terms = logged.terms;
  team::Coordinator coordinator(
      authority.listen, secret, logged.team.size(), team::MemberCard::admission(std::move(expected)),
      team::Coordinator::Log{.store = std::move(store), .terms = logged.terms, .newer = {}, .ended = authority.lost},
      authority.silence);
  std::cout << "the pool of " << logged.team.size() << " nodes is coordinated at " << coordinator.address()
            << std::endl;
  (void)signals.wait();
  if (coordinator.end_if_deserted({})) std::cout << "the pool has ended" << std::endl;
}

}  // namespace farside::node
