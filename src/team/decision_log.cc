#include "team/decision_log.h"

#include <utility>
#include <vector>

#include "base/wire.h"

namespace farside::team {

namespace {

constexpr std::string_view kMagic = "farside team";
constexpr std::uint32_t kVersion = 3;

/// About what a store needs besides an entry.
constexpr std::uint64_t kEntryOverhead = 32;

struct Head {
  Rank size = 0;
  std::string terms;
};

std::string encode_head(const Head& head) {
  return Encoder().text(kMagic).number(kVersion).number(head.size).text(head.terms).take();
}

Head decode_head(const std::string& bytes) {
  Decoder from(bytes, "the head of a coordinator's log");
  from.expect(from.text() == kMagic, "it is something else");
  from.expect(from.number<std::uint32_t>() == kVersion, "another version of farside wrote it");
  Head head{.size = from.number<Rank>(), .terms = from.text()};
  from.expect_end();
  from.expect(head.size != 0, "its team has no members");
  return head;
}

}  // namespace

LoggedTeam read_team(std::span<const std::string> entries) {
  if (entries.empty()) throw Error({"read", "a coordinator's log", "there is none", ""});
  Head head = decode_head(entries.front());
  LoggedTeam found{.terms = std::move(head.terms), .team = Membership(head.size)};
  for (const std::string& entry : entries.subspan(1)) found.team.apply(decode_decision(entry, head.size));
  return found;
}

void expect_own(std::span<const std::string> entries, const std::string& terms, Rank size, const std::string& where) {
  if (entries.empty() || entries.front() == encode_head({size, terms})) return;
  const Membership team = read_team(entries).team;
  if (!team.is_formed() || team.is_deserted()) return;
  throw Error({"take over the team whose decisions are in", where, "it is that of a pool with other options",
               "start the pool with the options that it had, or give it up: farside down, then farside up"});
}

std::string DecisionLog::head() const { return encode_head({team_.size(), terms_}); }

DecisionLog::DecisionLog(std::unique_ptr<authority::DecisionStore> store, std::string terms, Membership& team,
                         const std::optional<TeamState>& newer)
    : store_(std::move(store)), terms_(std::move(terms)), team_(team) {
  recover();
  if (newer) team_.apply(*newer);
  if (rewrite() != Kept::kept) throw Error({"keep decisions in", store_->name(), why(), ""});
}

void DecisionLog::recover() {
  const std::vector<std::string> entries = store_->read();
  expect_own(entries, terms_, team_.size(), store_->name());
  if (entries.empty() || entries.front() != head()) return;  // of a pool that has ended
  for (const std::string& entry : std::span(entries).subspan(1)) team_.apply(decode_decision(entry, team_.size()));
}

// The store may read back what makes no sense.
template <class Attempt>
DecisionLog::Kept DecisionLog::try_to(Attempt attempt) {
  why_.clear();
  try {
    return attempt();
  } catch (const Error& error) {
    why_ = error.what();
    return Kept::failed;
  }
}

DecisionLog::Kept DecisionLog::append(const Decision& decision) {
  const std::uint64_t large = store_->large_bytes();
  const bool is_large = bytes_ > large && bytes_ / 4 > bytes_at_first_;
  if (const Kept begun = is_large ? rewrite() : Kept::kept; begun != Kept::kept) return begun;
  const std::string entry = encode_decision(decision);
  bytes_ += entry.size() + kEntryOverhead;
  const Kept kept = try_to([&] { return store_->append(entry); });
  if (kept != Kept::rewound) return kept;
  const Kept begun = rewrite();
  return begun == Kept::kept ? try_to([&] { return store_->append(entry); }) : begun;
}

DecisionLog::Kept DecisionLog::rewrite() {
  const std::vector<std::string> entries{head(), encode_decision(team_.state())};
  bytes_ = bytes_at_first_ = entries.front().size() + entries.back().size();
  return try_to([&] { return store_->replace(entries); });
}

}  // namespace farside::team
