// The text by which an authority in etcd is named.
#include "authority/etcd_address.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

namespace farside::authority {
namespace {

using testing::ElementsAre;

TEST(EtcdAddress, NamesServersAPoolAndFiles) {
  const EtcdAddress all =
      EtcdAddress::parse("etcds://one:2379,[::1]:22379/blue-1?ca=/a&cert=/b&key=/c&user=farside&password-file=/d");
  EXPECT_THAT(all.members, ElementsAre("one:2379", "[::1]:22379"));
  EXPECT_EQ(all.pool, "blue-1");
  EXPECT_TRUE(all.is_tls);
  EXPECT_EQ(all.ca + all.certificate + all.key + all.user + all.password_file, "/a/b/cfarside/d");
  EXPECT_EQ(EtcdAddress::parse(all.text()).text(), all.text());
  EXPECT_EQ(EtcdAddress::parse("etcd://one:2379/p").text(), "etcd://one:2379/p");
}

// The nodes have another working directory.
TEST(EtcdAddress, IsHandedOnWithWholePaths) {
  const std::string text = EtcdAddress::parse("etcds://one:2379/p?ca=ca.pem").text();
  EXPECT_EQ(text, "etcds://one:2379/p?ca=" + std::filesystem::absolute("ca.pem").string());
}

TEST(EtcdAddress, RefusesWhatNamesNone) {
  for (const char* const text : {"",
                                 "etcd:",
                                 "etcd://",
                                 "etcd://one",
                                 "etcd://one:",
                                 "etcd://:2379",
                                 "etcd://one:2379,",
                                 "etcd://one:2379",
                                 "etcd://one:2379/",
                                 "etcd://one:2379/a/b",
                                 "etcd://one:2379/a b",
                                 "http://one:2379",
                                 "etcd://user@one:2379",
                                 "etcd://one:2379/p?",
                                 "etcd://one:2379/p?colour=red",
                                 "etcd://one:2379/p?ca",
                                 "etcd://one:2379/p?ca=/a",
                                 "etcds://one:2379/p?cert=/a",
                                 "etcds://one:2379/p?key=/a",
                                 "etcd://one:2379/p?user=a",
                                 "etcd://one:2379/p?password-file=/a"}) {
    EXPECT_THROW((void)EtcdAddress::parse(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace farside::authority
