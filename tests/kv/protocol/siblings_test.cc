// What a version says of its siblings.
#include "kv/protocol/siblings.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace farside::kv {
namespace {

KeyId nth(std::size_t number) { return key_id("key " + std::to_string(number)); }

std::vector<KeyId> keys(std::size_t count) {
  std::vector<KeyId> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(nth(i));
  return keys;
}

// A sibling that is not named is one that a reader does not look for.
TEST(KvSiblings, NameAllWhateverTheirNumber) {
  for (const SiblingsKind kind : {SiblingsKind::list, SiblingsKind::filter, SiblingsKind::none}) {
    for (const std::size_t count : {1, 2, 9, 16, 17, 160, 1000}) {
      const auto all = keys(count);
      const auto siblings = make_siblings(kind, all);
      for (const KeyId& key : all) EXPECT_TRUE(may_name(kind, siblings, key)) << count;
    }
  }
}

// Each is one that a reader looks for and does not find.
TEST(KvSiblings, NameFewOthers) {
  constexpr std::size_t kOthers = 10'000;
  for (const std::size_t count : {8, 9, 16, 100, 128}) {
    const auto filter = make_siblings(SiblingsKind::filter, keys(count));
    EXPECT_LE(filter.size(), std::max<std::size_t>(32, 4 * count));
    std::size_t named = 0;
    for (std::size_t i = 0; i < kOthers; ++i) named += may_name(SiblingsKind::filter, filter, nth(count + i)) ? 1 : 0;
    EXPECT_LE(named, kOthers / 250) << count;
  }
}

// It comes from another's memory.
TEST(KvSiblings, OfAFilterThatIsNoneNothingIsKnown) {
  for (const std::size_t bytes : {0, 1, 16, 33, 48, 2048}) {
    EXPECT_TRUE(may_name(SiblingsKind::filter, std::vector<std::byte>(bytes), nth(1))) << bytes;
  }
}

}  // namespace
}  // namespace farside::kv
