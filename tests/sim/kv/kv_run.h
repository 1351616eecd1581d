// kv_run.h — sessions that put, erase and get a few keys at random (kv_world.h), and what must hold of it: the history
// is Read Atomic, session by session, every value is the one that was written, nothing came between a conditional
// version and what it expected, and when all faults are over every client can read everything.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kv/history/read_atomic.h"
#include "tests/sim/kv/kv_world.h"

namespace farside::sim {

class KvRun {
 public:
  KvRun(std::uint64_t seed, const KvScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario),
        dice_(world_.dice()),
        diaries_(scenario.clients),
        may_be_gone_(scenario.keys) {
    for (std::size_t key = 0; key < scenario.keys; ++key) keys_.push_back("key " + std::to_string(key));
  }

  /// A put was refused for want of copies, and a later one was done.
  [[nodiscard]] bool was_written_again() const { return was_written_again_; }

  /// What went wrong.
  std::optional<std::string> run() {
    const auto work = [this](Client& client) {
      for (int round = 0; round < scenario_.rounds; ++round) act(client);
    };
    const auto look = [this](Client& client) { (void)get(client, keys_that_are_served(), true); };
    if (!world_.run(work, look)) fail("a client was still at work when the time was over");
    if (world_.has_standby_given_up()) fail("a standby gave up");
    judge();
    return violation_;
  }
  [[nodiscard]] KvWorld& world() noexcept { return world_; }
  /// Puts that timed out and were read afterwards; of `run`.
  [[nodiscard]] std::uint64_t late_puts() const noexcept { return late_puts_; }

 private:
  static constexpr std::uint64_t kMaxLifeNs = 2'000'000;

  using Timestamp = kv::Timestamp;
  using Client = KvWorld::Client;
  /// Of a get, by key.
  using Versions = std::map<std::size_t, Timestamp>;

  struct Written {
    std::size_t key;
    bool erased;
    std::uint64_t expires_ns;
    std::optional<Timestamp> expected;

    [[nodiscard]] bool may_be_gone() const { return erased || expires_ns != 0; }
  };
  /// What a client did, as it will stand in the history.
  struct Did {
    kv::HistoryTransaction::Outcome outcome = kv::HistoryTransaction::Outcome::committed;
    Timestamp version{};             // of a put
    std::vector<Written> written{};  // by a put
    Versions reads{};
    Versions absent{};                                      // what of these keys had been put before
    std::map<std::size_t, std::uint64_t> without_values{};  // when versions were read that had none: wall time
  };
  /// A client's.
  struct Diary {
    std::vector<Did> done;
    std::vector<Did> under_way;            // puts of which nothing is known yet
    std::vector<kv::IndependentPut> puts;  // those
    Client* client = nullptr;              // null: it never began
  };

  // ---- What a client does

  void act(Client& client) {
    diaries_[client.number].client = &client;
    if (dice_.one_in(4)) world_.fabric_of(client).sleep(dice_.up_to(KvWorld::kAwhile));
    const bool only_reads = scenario_.is_apart && client.number == 0;
    if (dice_.one_in(2) && !only_reads) return put(client, {});
    std::vector<std::size_t> keys = any_keys();
    if (dice_.one_in(4)) keys.push_back(keys.front());
    const Versions found = get(client, keys, scenario_.is_calm());
    if (!found.empty() && !only_reads && dice_.one_in(scenario_.one_in_conditions)) put(client, found);
  }

  /// What a put is to write, and what is to stand in the history.
  struct Plan {
    std::vector<kv::Write> writes{};
    std::vector<std::string> values{};
    Did did{};
  };

  /// What was found is expected to be so still.
  Plan plan(Client& client, const Versions& found) {
    Plan plan;
    plan.values.reserve(keys_.size());
    for (const std::size_t key : any_keys()) {
      const bool erases = dice_.one_in(scenario_.one_in_erases);
      const bool expires = !erases && dice_.one_in(scenario_.one_in_expires);
      const std::uint64_t expires_ns = expires ? client.session().wall_ns() + dice_.random() % kMaxLifeNs : 0;
      if (erases || expires) may_be_gone_[key] = true;
      const auto expected = found.find(key);
      plan.values.push_back(erases ? "" : new_value());
      plan.writes.push_back(
          {.key = keys_[key], .value = plan.values.back(), .expires_ns = expires_ns, .erase = erases});
      if (expected != found.end()) plan.writes.back().expected = expected->second;
      plan.did.written.push_back({key, erases, expires_ns, plan.writes.back().expected});
    }
    return plan;
  }

  /// One, or several that are under way at once.
  void put(Client& client, const Versions& found) {
    std::vector<Plan> plans;
    do plans.push_back(plan(client, found));
    while (dice_.one_in(3));
    Diary& diary = diaries_[client.number];
    for (const Plan& each : plans) {
      diary.under_way.push_back(each.did);
      diary.puts.push_back({each.writes});
    }
    if (plans.size() == 1) {
      diary.puts.front().outcome = client.session().put_all(plans.front().writes, world_.deadline_of(client));
      diary.puts.front().version = client.session().last_put();
    } else {
      client.session().put_each(diary.puts, world_.deadline_of(client));
    }
    for (std::size_t i = 0; i < plans.size(); ++i) note_put(diary, plans[i], diary.puts[i]);
    const auto first = diary.done.end() - static_cast<std::ptrdiff_t>(plans.size());
    std::ranges::sort(first, diary.done.end(), {}, &Did::version);  // their order is that of their timestamps
    diary.under_way.clear();
    diary.puts.clear();
  }
  void note_put(Diary& diary, Plan& plan, const kv::IndependentPut& put) {
    Did& did = plan.did;
    did.version = put.version;
    did.outcome = put.outcome == kv::PutOutcome::done      ? kv::HistoryTransaction::Outcome::committed
                  : put.outcome == kv::PutOutcome::unknown ? kv::HistoryTransaction::Outcome::unknown
                                                           : kv::HistoryTransaction::Outcome::aborted;
    if (scenario_.is_calm() && put.outcome == kv::PutOutcome::unknown) fail("a put was not answered");
    if (scenario_.is_calm() && put.outcome == kv::PutOutcome::unwritable) fail("a put was refused for no reason");
    for (std::size_t i = 0; i < did.written.size(); ++i) note_value(did.written[i].key, did.version, plan.values[i]);
    if (put.outcome == kv::PutOutcome::too_few_copies) {
      was_refused_ = true;
      if (scenario_.shipping.min_copies == 1) fail("a put was refused although one copy is enough");
    }
    if (put.outcome == kv::PutOutcome::done) {
      was_written_again_ = was_written_again_ || was_refused_;
      for (const Written& each : did.written) returned_[each.key] = std::max(returned_[each.key], did.version);
    }
    diary.done.push_back(std::move(did));
  }

  Versions get(Client& client, const std::vector<std::size_t>& chosen, bool must_succeed) {
    std::vector<std::string_view> keys;
    for (const std::size_t key : chosen) keys.push_back(keys_[key]);
    const Versions returned = returned_;  // before it begins
    const auto got = client.session().get_all(keys, world_.deadline_of(client));
    if (!got.done()) {
      if (must_succeed) fail("a get " + std::string(to_string(got.status)));
      return {};
    }
    Versions found;
    Did did;
    for (std::size_t i = 0; i < got.value.size(); ++i) {
      const std::size_t key = chosen[i];
      const auto& [present, version, value, expires_ns] = got.value[i];
      const Timestamp same = found.try_emplace(key, version).first->second;
      if (present && same != version) fail("two versions of a key in one get");
      const auto put = returned.find(key);
      const Timestamp due = put == returned.end() ? Timestamp{} : put->second;
      if (version == Timestamp{} && may_be_gone_[key]) {  // a key that is gone does not say who erased it
        did.absent[key] = due;
        continue;
      }
      did.reads[key] = version;
      if (version < due) fail("a put that had returned was not seen");
      if (present) note_value(key, version, std::string(value));
      if (!present && version != Timestamp{}) did.without_values[key] = client.session().wall_ns();
    }
    diaries_[client.number].done.push_back(std::move(did));
    return found;
  }

  /// Each client that writes or reads a version finds in it what all others do.
  void note_value(std::size_t key, const Timestamp& version, const std::string& value) {
    const auto [at, is_new] = values_.try_emplace({key, version}, value);
    if (!is_new && at->second != value) fail("two values in one version: " + at->second + " and " + value);
  }
  std::string new_value() {
    std::string value = std::to_string(++value_) + " ";
    value.append(dice_.random() % scenario_.most_value_bytes, 'v');
    return value;
  }

  // ---- What must hold

  void judge() {
    kv::History history;
    history.files.emplace_back("run");
    history.transactions.push_back({0, kv::kNoHistoryId, 0, kv::HistoryTransaction::Outcome::committed, {}});
    for (std::size_t i = 0; i < diaries_.size(); ++i) add_client(history, i + 1, diaries_[i]);
    if (violation_) return;
    if (const auto anomaly = kv::check_read_atomic(history)) {
      std::string evidence = name_of(anomaly->kind);
      for (const std::string& each : anomaly->evidence) evidence += "; " + each;
      fail(evidence);
    }
    for (const Diary& diary : diaries_) {
      judge_causality(diary);
      judge_values(diary);
    }
    judge_conditions();
    count_late_puts();
  }
  void count_late_puts() {
    std::set<Timestamp> read;
    for (const Diary& diary : diaries_) {
      for (const Did& did : diary.done) {
        for (const auto& [key, version] : did.reads) read.insert(version);
      }
    }
    for (const Diary& diary : diaries_) {
      late_puts_ += static_cast<std::uint64_t>(std::ranges::count_if(diary.done, [&read](const Did& did) {
        return did.outcome == kv::HistoryTransaction::Outcome::unknown && read.contains(did.version);
      }));
    }
  }
  void add_client(kv::History& history, std::uint64_t session, Diary& diary) {
    for (std::size_t i = 0; i < diary.under_way.size(); ++i) {
      const bool is_alone = diary.under_way.size() == 1;
      const Timestamp version = is_alone ? diary.client->session().last_put() : diary.puts[i].version;
      const bool has_begun = std::ranges::find(diary.done, version, &Did::version) == diary.done.end();
      diary.under_way[i].version = version;
      diary.under_way[i].outcome = kv::HistoryTransaction::Outcome::unknown;
      if (has_begun && version != Timestamp{}) diary.done.push_back(diary.under_way[i]);
    }
    std::int64_t id = 0;
    for (const Did& did : diary.done) {
      kv::HistoryTransaction transaction{session, ++id, 0, did.outcome, {}};
      for (const auto& [key, version] : did.reads) {
        transaction.operations.push_back({kv::HistoryOperation::Kind::read, key, number_of(version), ++line_});
      }
      if (!did.written.empty() && !written_.try_emplace(did.version, did.written).second) {
        return fail("two transactions have one timestamp");
      }
      for (const Written& each : did.written) {
        transaction.operations.push_back(
            {kv::HistoryOperation::Kind::write, each.key, number_of(did.version), ++line_});
      }
      history.transactions.push_back(std::move(transaction));
    }
  }
  /// What the checker does not ask: who has seen a transaction at one key sees it at all others, in whatever it reads
  /// later.
  void judge_causality(const Diary& diary) {
    Versions floors;
    for (const Did& did : diary.done) {
      for (const auto& [key, version] : did.reads) {
        if (version < floors[key]) fail("of a transaction that a session had seen it missed a part");
      }
      for (const auto& [key, version] : did.reads) {
        const auto written = written_.find(version);
        if (written == written_.end()) continue;
        for (const Written& each : written->second) floors[each.key] = std::max(floors[each.key], version);
      }
      for (const auto& [key, due] : did.absent) {
        if (!can_be_gone(did, key, std::max(due, floors[key]))) fail("a key was absent that no client had erased");
      }
    }
  }
  /// There is one who may have erased the key, and of whose transaction the get missed no other part.
  bool can_be_gone(const Did& did, std::size_t key, const Timestamp& due) {
    if (due == Timestamp{}) return true;
    const auto may_have_erased = [&](const auto& transaction) {
      const auto& [version, written] = transaction;
      const auto erases = [&](const Written& each) { return each.key == key && each.may_be_gone(); };
      const auto is_seen = [&, when = version](const Written& each) {
        const auto read = did.reads.find(each.key);
        return read == did.reads.end() || read->second >= when;
      };
      return version >= due && std::ranges::any_of(written, erases) && std::ranges::all_of(written, is_seen);
    };
    return std::ranges::any_of(written_, may_have_erased);
  }
  /// What was found without a value had none, or not any more.
  void judge_values(const Diary& diary) {
    for (const Did& did : diary.done) {
      for (const auto& [key, wall_ns] : did.without_values) {
        // By the reader's clock, or by that of a standby which did again what was written.
        const bool has_standbys = scenario_.has_standbys;
        const auto is_gone = [key = key, wall_ns = wall_ns, has_standbys](const Written& each) {
          const bool expires = each.expires_ns != 0;
          return each.key == key && (each.erased || (expires && (has_standbys || each.expires_ns <= wall_ns)));
        };
        const auto written = written_.find(did.reads.at(key));
        if (written == written_.end() || std::ranges::none_of(written->second, is_gone)) fail("a value was missing");
      }
    }
  }
  struct Newest {
    Timestamp version{};
    bool may_be_gone = false;
  };
  /// Of each key the versions of which it is known that they are committed: between a conditional one and the one that
  /// it expected there is none. An erasure may be committed without a client that knows it: a reader only finds the key
  /// absent.
  void judge_conditions() {
    std::set<Timestamp> committed;
    std::set<Timestamp> unknown;
    for (const Diary& diary : diaries_) {
      for (const Did& did : diary.done) {
        if (did.outcome == kv::HistoryTransaction::Outcome::committed) committed.insert(did.version);
        if (did.outcome == kv::HistoryTransaction::Outcome::unknown) unknown.insert(did.version);
        for (const auto& [key, version] : did.reads) committed.insert(version);
      }
    }
    std::vector<Newest> newest(keys_.size());
    for (const auto& [version, written] : written_) {
      for (const Written& each : written) {
        Newest& before = newest[each.key];
        if (!committed.contains(version)) {
          before.may_be_gone |= unknown.contains(version) && each.may_be_gone();
          continue;
        }
        const bool is_absent = each.expected == Timestamp{} && before.may_be_gone;
        if (each.expected && each.expected != before.version && !is_absent) fail("something came between");
        before = {version, each.may_be_gone()};
      }
    }
  }
  /// Versions as a history names them; 0: what was there at first.
  std::uint64_t number_of(const Timestamp& version) {
    if (version == Timestamp{}) return 0;
    return numbers_.try_emplace(version, numbers_.size() + 1).first->second;
  }

  // ----

  [[nodiscard]] std::vector<std::size_t> all_keys() const {
    std::vector<std::size_t> keys(keys_.size());
    std::iota(keys.begin(), keys.end(), 0);
    return keys;
  }
  [[nodiscard]] std::vector<std::size_t> keys_that_are_served() {
    std::vector<std::size_t> keys = all_keys();
    std::erase_if(keys, [this](std::size_t key) { return !world_.serves(keys_[key]); });
    return keys;
  }
  [[nodiscard]] std::vector<std::size_t> any_keys() {
    std::vector<std::size_t> keys;
    while (keys.empty()) {
      for (std::size_t key = 0; key < keys_.size(); ++key) {
        if (dice_.one_in(2)) keys.push_back(key);
      }
    }
    return keys;
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const KvScenario scenario_;
  KvWorld world_;
  Scheduler& dice_;
  std::vector<std::string> keys_;
  std::vector<Diary> diaries_;     // by client
  std::vector<bool> may_be_gone_;  // by key: a client tried to erase it, or gave it a time to live
  std::map<std::pair<std::size_t, Timestamp>, std::string> values_;
  std::map<Timestamp, std::uint64_t> numbers_;
  std::map<Timestamp, std::vector<Written>> written_;  // by transaction
  Versions returned_;                                  // by key: the newest put that has returned
  std::uint64_t value_ = 0;
  std::uint64_t line_ = 0;
  std::uint64_t late_puts_ = 0;
  bool was_refused_ = false;
  bool was_written_again_ = false;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
