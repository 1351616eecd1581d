#include "farside/kv/table.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "farside/base/error.h"

#include "kv/contention.h"
#include "kv/table/view_values.h"

namespace farside::kv {

namespace {

[[noreturn]] void refuse(const std::string& tried, const std::string& on, const std::string& why,
                         const std::string& remedy) {
  throw UsageError({.tried = tried, .on = on, .why = why, .remedy = remedy});
}

std::set<std::string> groups_of(const View& view, std::string_view key, std::string_view value) {
  auto groups = view.groups(key, value);
  return {std::make_move_iterator(groups.begin()), std::make_move_iterator(groups.end())};
}

// The effect of a put on one shard of a view.
struct Change {
  const View* view = nullptr;
  std::set<std::string_view> added;
  std::set<std::string_view> removed;
};

// By the shard's key.
class Changes {
 public:
  explicit Changes(std::span<const View> views) : views_(views) {}

  void note(const Write& row, const Got& before) {
    for (const View& view : views_) {
      if (!row.key.starts_with(view.rows)) continue;
      const auto old_groups = before.present ? groups_of(view, row.key, before.value) : std::set<std::string>();
      const auto new_groups = row.erase ? std::set<std::string>() : groups_of(view, row.key, row.value);
      for (const std::string& group : old_groups) {
        if (!new_groups.contains(group)) change(view, row.key, group).removed.insert(row.key);
      }
      for (const std::string& group : new_groups) {
        if (!old_groups.contains(group)) change(view, row.key, group).added.insert(row.key);
      }
    }
  }

  [[nodiscard]] const std::map<std::string, Change>& by_key() const noexcept { return changes_; }

 private:
  Change& change(const View& view, std::string_view row, std::string_view group) {
    Change& change = changes_[shard_key(view, shard_of(view, row), group)];
    change.view = &view;
    return change;
  }

  std::span<const View> views_;
  std::map<std::string, Change> changes_;
};

// Empty: the group has no row in this shard any more.
std::string changed(const std::string& key, const Change& change, std::string_view before) {
  if (change.view->kind == View::Kind::count) {
    return changed_count(key, before, change.added.size(), change.removed.size());
  }
  std::vector<std::string> rows = decode_list(key, before);
  std::erase_if(rows, [&change](const std::string& row) { return change.removed.contains(row); });
  rows.insert(rows.end(), change.added.begin(), change.added.end());
  std::ranges::sort(rows);
  return encode_list(rows);
}

// The keys of a group's rows, sorted. `shards`: as they were got.
std::vector<std::string> listed_in(std::span<const Got> shards, const View& view, std::string_view group) {
  std::vector<std::string> keys;
  for (std::uint32_t shard = 0; shard < view.shards; ++shard) {
    auto part = decode_list(shard_key(view, shard, group), shards[shard].value);
    keys.insert(keys.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  std::ranges::sort(keys);
  return keys;
}

bool is_expected(const Write& row, const Got& found) {
  return !row.expected || *row.expected == found.version || (!found.present && *row.expected == Timestamp{});
}

}  // namespace

Table::Table(Session& session, std::vector<View> views, std::chrono::nanoseconds time_out)
    : session_(session), views_(std::move(views)), time_out_(time_out) {
  std::set<std::string_view> names;
  for (const View& view : views_) {
    const std::string on = "the view \"" + view.name + "\"";
    if (view.name.find('/') != std::string::npos) refuse("declare", on, "its name has a '/'", "leave it out");
    if (view.shards == 0) refuse("declare", on, "it has no shards", "give it 1 at least");
    if (!names.insert(view.name).second) refuse("declare", on, "there are two of that name", "rename one");
  }
}

PutOutcome Table::put(std::string_view key, std::string_view value) {
  const Write row{.key = key, .value = value};
  return put_all({&row, 1});
}

PutOutcome Table::erase(std::string_view key) {
  const Write row{.key = key, .erase = true};
  return put_all({&row, 1});
}

PutOutcome Table::put_all(std::span<const Write> rows) {
  for (const Write& row : rows) {
    if (row.expires_ns == 0) continue;
    refuse("put", "the row \"" + std::string(row.key) + "\"", "it expires, and its views would not know",
           "erase it when it is due");
  }
  Contention contention(time_out_);
  do {
    if (const auto outcome = try_once(rows)) return *outcome;
  } while (contention.try_again());
  return PutOutcome::differs;
}

// The reads need not be of one moment: the put is refused unless all that was read is still so.
std::optional<PutOutcome> Table::try_once(std::span<const Write> rows) {
  std::vector<std::string_view> keys;
  for (const Write& row : rows) keys.push_back(row.key);
  const auto before = session_.get_all(keys);
  if (!before.done()) return PutOutcome::unknown;

  Changes changes(views_);
  std::vector<Write> writes(rows.begin(), rows.end());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (!is_expected(writes[i], before.value[i])) return PutOutcome::differs;
    writes[i].expected = before.value[i].version;
    changes.note(writes[i], before.value[i]);
  }

  std::deque<std::string> values;
  if (!changes.by_key().empty()) {
    keys.clear();
    for (const auto& [key, change] : changes.by_key()) keys.emplace_back(key);
    const auto shards = session_.get_all(keys);
    if (!shards.done()) return PutOutcome::unknown;
    for (auto found = shards.value.begin(); const auto& [key, change] : changes.by_key()) {
      const std::string& value = values.emplace_back(changed(key, change, found->value));
      writes.push_back({.key = key, .value = value, .erase = value.empty(), .expected = found->version});
      ++found;
    }
  }
  const PutOutcome outcome = session_.put_all(writes);
  if (outcome == PutOutcome::differs) return std::nullopt;
  return outcome;
}

Result<std::vector<std::string>> Table::keys(std::string_view view, std::string_view group) {
  const View& wanted = find(view, true);
  const auto shards = get_shards(wanted, group);
  if (!shards.done()) return {shards.status, {}};
  return {Outcome::done, listed_in(shards.value, wanted, group)};
}

Result<std::vector<Row>> Table::rows(std::string_view view, std::string_view group) {
  const View& wanted = find(view, true);
  Contention contention(time_out_);
  do {
    const auto shards = get_shards(wanted, group);
    if (!shards.done()) return {shards.status, {}};
    std::vector<std::string> listed = listed_in(shards.value, wanted, group);
    std::vector<Timestamp> versions;
    for (const Got& shard : shards.value) versions.push_back(shard.version);
    const auto got = get_shards(wanted, group, listed);
    if (!got.done()) return {got.status, {}};
    if (!std::ranges::equal(versions, got.value.first(wanted.shards), {}, {}, &Got::version)) continue;
    std::vector<Row> rows;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      rows.push_back({std::move(listed[i]), std::string(got.value[wanted.shards + i].value)});
    }
    return {Outcome::done, std::move(rows)};
  } while (contention.try_again());
  return {Outcome::timed_out, {}};
}

Result<std::uint64_t> Table::count(std::string_view view, std::string_view group) {
  const View& wanted = find(view, false);
  const auto shards = get_shards(wanted, group);
  if (!shards.done()) return {shards.status, 0};
  std::uint64_t count = 0;
  for (std::uint32_t shard = 0; shard < wanted.shards; ++shard) {
    const std::string key = shard_key(wanted, shard, group);
    const std::string_view value = shards.value[shard].value;
    count += wanted.kind == View::Kind::count ? decode_count(key, value) : decode_list(key, value).size();
  }
  return {Outcome::done, count};
}

Result<std::span<const Got>> Table::get_shards(const View& view, std::string_view group,
                                               std::span<const std::string> also) {
  std::vector<std::string> shards;
  for (std::uint32_t shard = 0; shard < view.shards; ++shard) shards.push_back(shard_key(view, shard, group));
  std::vector<std::string_view> wanted(shards.begin(), shards.end());
  wanted.insert(wanted.end(), also.begin(), also.end());
  return session_.get_all(wanted);
}

const View& Table::find(std::string_view name, bool must_list) const {
  const auto found = std::ranges::find(views_, name, &View::name);
  const std::string on = "the view \"" + std::string(name) + "\"";
  if (found == views_.end()) refuse("read", on, "there is none of that name", "declare it");
  if (must_list && found->kind == View::Kind::count) refuse("list", on, "it only counts", "declare it as a list");
  return *found;
}

}  // namespace farside::kv
