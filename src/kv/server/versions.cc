#include "kv/server/versions.h"

#include <iterator>

#include "base/assert.h"

namespace farside::kv {

Versions::const_iterator KeyVersions::above(const Timestamp& timestamp) const {
  // A search that fails is most often for a version that is not noted any more, which is older than all that are.
  if (versions.empty() || versions.front().timestamp > timestamp) return versions.begin();
  auto place = versions.end();
  while (place != versions.begin() && std::prev(place)->timestamp > timestamp) --place;
  return place;
}

const Version* KeyVersions::find(const Timestamp& timestamp) const {
  const auto after = above(timestamp);
  const bool is_there = after != versions.begin() && std::prev(after)->timestamp == timestamp;
  return is_there ? &*std::prev(after) : nullptr;
}

void KeyVersions::count(Version& version) {
  if (!version.committed()) {
    ++prepared;
  } else if (newest_committed == nullptr || newest_committed->timestamp < version.timestamp) {
    newest_committed = &version;
  }
}

void KeyVersions::discount(const Version& version) {
  if (!version.committed()) {
    assert_that(prepared != 0, "each version that is prepared was counted");
    --prepared;
  } else if (newest_committed == &version) {
    const auto is_next = [&version](const Version& each) { return each.committed() && &each != &version; };
    const auto next = std::find_if(versions.rbegin(), versions.rend(), is_next);
    newest_committed = next == versions.rend() ? nullptr : &*next;
  }
}

Timestamp KeyVersions::last_conditional() const {
  if (prepared == 0) return {};
  for (auto version = versions.rbegin(); version != versions.rend() && !version->committed(); ++version) {
    if (version->conditional) return version->timestamp;
  }
  return {};
}

Version& VersionPlaces::put(KeyVersions& history, const Version& version) {
  Version* place = history.find(version.timestamp);
  if (place == nullptr) {
    if (unused_.empty()) unused_.push_back(places_.emplace_back());
    place = &unused_.front();
    unused_.pop_front();
    history.versions.insert(history.above(version.timestamp), *place);
  } else {
    history.discount(*place);
  }
  *place = version;
  place->key = &history;
  history.count(*place);
  return *place;
}

void VersionPlaces::drop(Version& version) {
  KeyVersions& history = *version.key;
  history.versions.erase(history.versions.iterator_to(version));
  history.discount(version);
  version.generation = 0;
  unused_.push_front(version);  // the next one finds it in a cache
}

void VersionPlaces::drop_all(KeyVersions& history) {
  while (!history.versions.empty()) drop(history.versions.front());
}

}  // namespace farside::kv
