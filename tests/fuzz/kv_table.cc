// A value under a key of a table's views (kv/table) that another program wrote. It is refused with an Error; or it is a
// list or a count, which one more row makes one longer.
//
// Input: the value of a group's shard.
#include <cstdlib>

#include "kv/table/view_values.h"
#include "tests/fuzz/decode.h"
#include "tests/kv/resp/memory_session.h"

namespace farside::fuzz {
namespace {

using namespace kv;

constexpr std::string_view kGroup = "group";
constexpr std::string_view kRow = "row:a";

/// A table with one view, whose only shard has `value`.
class OneView {
 public:
  OneView(View::Kind kind, std::string_view value) : kind_(kind) {
    const std::string key = shard_key(view(), 0, kGroup);
    const Write shard{.key = key, .value = value};
    if (session_.put_all({&shard, 1}) != PutOutcome::done) std::abort();
  }

  void use() {
    const std::uint64_t before = count();
    if (kind_ == View::Kind::list) {
      const auto rows = table_.rows("view", kGroup);
      if (!rows.done() || rows.value.size() != before) std::abort();
    }
    if (table_.put(kRow, "") != PutOutcome::done) std::abort();
    const std::uint64_t after = count();
    if (after != before + 1 || after == 0) std::abort();
    (void)table_.erase(kRow);
  }

 private:
  std::uint64_t count() {
    const auto count = table_.count("view", kGroup);
    if (!count.done()) std::abort();
    return count.value;
  }
  [[nodiscard]] View view() const {
    return {.name = "view",
            .rows = "row:",
            .groups = [](std::string_view, std::string_view) { return std::vector{std::string(kGroup)}; },
            .kind = kind_};
  }

  const View::Kind kind_;
  test::MemoryKeys keys_;
  test::MemorySession session_{keys_};
  Table table_{session_, {view()}};
};

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  const std::string_view value = fuzz::text(data, size);
  fuzz::expect_refused_or_understood(value, [](auto bytes) { return kv::encode_list(kv::decode_list("key", bytes)); });
  for (const auto kind : {kv::View::Kind::list, kv::View::Kind::count}) {
    try {
      fuzz::OneView(kind, value).use();
    } catch (const Error&) {
    }
  }
  return 0;
}
