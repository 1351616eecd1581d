// journal_fixture.h — a server's life with a journal: a store in memory of its own, recovered from a directory, asked
// by requests.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "kv/journal/file_journal.h"
#include "kv/server/request_handler.h"
#include "tests/kv/server/store_fixture.h"
#include "tests/support/pool.h"

namespace farside::kv::test {

using Bytes = std::vector<char>;

inline Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// What a store holds: of each key the newest committed version, and what is prepared.
struct Contents {
  std::map<std::string, std::string> values;  ///< with their timestamps; of an erased key there is none
  std::map<Timestamp, std::size_t> prepared;  ///< how many versions

  friend bool operator==(const Contents&, const Contents&) = default;
};

/// From its start to its death, or its end.
class Life : public StoreUnderTest {
 public:
  explicit Life(const std::filesystem::path& directory, const JournalSettings& like = {.sync = SyncPolicy::always},
                const StoreSettings& store_settings = {.bytes = 128U << 10U})
      : StoreUnderTest(store_settings),
        journal_(at_place(directory, like), Partition{}, store()),
        logged_(store(), &journal_) {}

  [[nodiscard]] FileJournal& journal() { return journal_; }
  [[nodiscard]] LoggedStore& logged() { return logged_; }

  /// The reply, after a sync.
  Answer ask(const Request& request) {
    held_.reply = handler_.answer_or_hold(request.encode()).reply;
    handler_.keep(held_);
    return Reply::decode(held_.reply).value().answer;
  }
  Answer put(const Write& write, std::uint64_t time) {
    Request request{.kind = RequestKind::put, .session = kSession, .timestamp = at(time)};
    request.writes.push_back(write);
    return ask(request);
  }
  Answer put(std::string_view key, std::string_view value, std::uint64_t time, bool erase = false) {
    return put({.key = key, .value = value, .erase = erase}, time);
  }
  Answer prepare(std::uint64_t time, const std::vector<Write>& writes, std::vector<ServerNumber> servers = {0, 1}) {
    Request request{.kind = RequestKind::prepare, .session = kSession, .timestamp = at(time)};
    request.writes = writes;
    request.servers = std::move(servers);
    return ask(request);
  }
  Answer prepare(std::uint64_t time, std::initializer_list<std::string_view> keys, std::string_view value,
                 std::vector<ServerNumber> servers = {0, 1}) {
    std::vector<Write> writes;
    for (const std::string_view key : keys) writes.push_back({.key = key, .value = value});
    return prepare(time, writes, std::move(servers));
  }
  /// When a value expires that lives so long from now on.
  [[nodiscard]] std::uint64_t in(Duration duration) const {
    return static_cast<std::uint64_t>((now() + duration).nanoseconds);
  }
  Answer tell(RequestKind kind, std::uint64_t time) {
    return ask({.kind = kind, .session = kSession, .timestamp = at(time)});
  }
  void settle(std::uint64_t time) { (void)ask({.kind = RequestKind::use, .session = kSession, .settled = time}); }

  [[nodiscard]] Contents contents() {
    Contents contents;
    for (Scanned scanned{{}, 0};;) {
      scanned = store().scan(scanned.next, "", 100);
      for (const std::string& key : scanned.keys) {
        const auto found = store().newest(key);
        contents.values[key] = std::to_string(found->timestamp.time) + " " + *value(*found, key);
      }
      if (scanned.next == 0) break;
    }
    for (const UnresolvedTransaction& each : store().undecided({std::numeric_limits<std::int64_t>::max()})) {
      contents.prepared[each.timestamp] = store().prepared(each.timestamp).size();
    }
    return contents;
  }

 private:
  static JournalSettings at_place(const std::filesystem::path& directory, JournalSettings settings) {
    settings.directory = directory;
    return settings;
  }

  struct OneReply final : Inbox {
    Message reply;

    bool serve(const Answer& /*answer*/, Duration /*pause*/) override { return false; }
    void release(const Revision& revision) override { reply = revision(std::move(reply)); }
  };

  FileJournal journal_;
  LoggedStore logged_;
  RequestHandler handler_{logged_};
  OneReply held_;
};

class JournalTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path directory() const { return directory_.path() / "journal"; }
  [[nodiscard]] std::filesystem::path log(std::uint64_t number = 1) const {
    return file({JournalFileKind::log, number});
  }
  [[nodiscard]] std::filesystem::path file(const JournalFileId& id) const {
    return directory() / std::filesystem::path(JournalDirectory::name_of(id));
  }
  [[nodiscard]] Contents recovered() { return Life(directory()).contents(); }
  /// A life that begins when all that was written to live shortly is over.
  [[nodiscard]] static StoreSettings much_later() {
    return {.bytes = 128U << 10U, .wall = {.ahead = std::chrono::hours(24)}};
  }

 private:
  farside::test::OnAQuickDisk on_a_quick_disk_;
  farside::test::TemporaryDirectory directory_;
};

}  // namespace farside::kv::test
