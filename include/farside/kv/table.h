// table.h — rows with views of them: secondary indexes, lists of what refers to a key, and counts, written in the same
// transaction as the rows, so that a reader of a row and a view of it sees both or neither.
//
//   Table likes(*session, {{.name = "pages", .rows = "like:", .groups = user_of},
//                          {.name = "fans", .rows = "like:", .groups = page_of, .kind = View::Kind::count}});
//   likes.put("like:ann:home", "");
//   const auto fans = likes.count("fans", "home");
//
// Right under concurrent writers: a put reads the rows that it replaces and the views that change, and is refused and
// begun again when another writer changed one of them (first to prepare wins, no writer waits for another). Rows must
// be written through tables with the same views; the lists of a view are values of the store, 16 MiB at most.
//
// Thread safety: that of the session.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/kv/session.h"

namespace farside::kv {

struct View {
  enum class Kind : std::uint8_t {
    list,   ///< the keys of a group's rows
    count,  ///< how many there are: less to write, and less to read
  };
  /// Under which groups a row stands: none, one, or several that differ. Always the same of the same row.
  using Groups = std::function<std::vector<std::string>(std::string_view key, std::string_view value)>;

  std::string name;  ///< without '/'. A group's view is in the keys "@NAME/SHARD/GROUP"
  std::string rows;  ///< what their keys begin with
  Groups groups;
  Kind kind = Kind::list;
  std::uint32_t shards = 1;  ///< over which a group is spread: more if many write to one group at once
};

struct Row {
  std::string key;
  std::string value;
};

class Table {
 public:
  /// `session` outlives it. Throws UsageError when views have one name or a name with '/', or no shards.
  Table(Session& session, std::vector<View> views, std::chrono::nanoseconds time_out = kDefaultTimeout);

  /// All of the rows and their views, or nothing. `differs`: a row is not what its write expected, or others wrote the
  /// same views until the time-out. Throws UsageError when a row expires: its views would not know.
  PutOutcome put_all(std::span<const Write> rows);
  PutOutcome put(std::string_view key, std::string_view value);
  PutOutcome erase(std::string_view key);

  // Throw UsageError when there is no such view, or keys and rows are wanted of one that only counts.

  /// Returns the keys of a group's rows, sorted.
  Result<std::vector<std::string>> keys(std::string_view view, std::string_view group);
  /// Returns a group's rows, all of one moment, sorted by key.
  Result<std::vector<Row>> rows(std::string_view view, std::string_view group);
  /// Returns how many rows a group has.
  Result<std::uint64_t> count(std::string_view view, std::string_view group);

 private:
  /// None: another writer was first.
  std::optional<PutOutcome> try_once(std::span<const Write> rows);
  [[nodiscard]] const View& find(std::string_view name, bool must_list) const;
  /// Returns the shards of a group's view, and then the keys in `also`. Valid until the session's next get.
  Result<std::span<const Got>> get_shards(const View& view, std::string_view group,
                                          std::span<const std::string> also = {});

  Session& session_;
  std::vector<View> views_;
  std::chrono::nanoseconds time_out_;
};

}  // namespace farside::kv
