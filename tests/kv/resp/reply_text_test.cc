// Replies as people read them.
#include "kv/resp/reply_text.h"

#include <gtest/gtest.h>

namespace farside::kv {
namespace {

std::string text_of(std::string_view reply) {
  std::string text = take_reply_text(reply);
  EXPECT_EQ(reply, "");
  return text;
}

TEST(ReplyText, SaysWhatKindOfReplyItIs) {
  EXPECT_EQ(text_of("+OK\r\n"), "OK");
  EXPECT_EQ(text_of("-ERR no\r\n"), "(error) ERR no");
  EXPECT_EQ(text_of(":-7\r\n"), "(integer) -7");
  EXPECT_EQ(text_of("$-1\r\n"), "(nil)");
  EXPECT_EQ(text_of("*-1\r\n"), "(nil)");
  EXPECT_EQ(text_of("*0\r\n"), "(empty array)");
}

TEST(ReplyText, ShowsBytesThatAreNoLetters) {
  using namespace std::string_literals;
  EXPECT_EQ(text_of("$9\r\na\"\\\n\x01 \xc3\xa4\r\r\n"), "\"a\\\"\\\\\\n\\x01 \xc3\xa4\\x0d\"");
  EXPECT_EQ(text_of("$0\r\n\r\n"), "\"\"");
}

TEST(ReplyText, NumbersAndIndentsWhatIsInArrays) {
  EXPECT_EQ(text_of("*2\r\n$1\r\na\r\n$-1\r\n"), "1) \"a\"\n2) (nil)");
  EXPECT_EQ(text_of("*2\r\n:0\r\n*2\r\n+x\r\n+y\r\n"), "1) (integer) 0\n2) 1) x\n   2) y");
}

TEST(ReplyText, TakesOneReplyOfSeveral) {
  std::string_view replies = "+a\r\n+b\r\n";
  EXPECT_EQ(take_reply_text(replies), "a");
  EXPECT_EQ(replies, "+b\r\n");
}

}  // namespace
}  // namespace farside::kv
