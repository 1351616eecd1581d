// Requests, whole, in pieces, and wrong.
#include <gtest/gtest.h>

#include "kv/resp/request_parser.h"

namespace farside::kv {
namespace {

using Requests = std::vector<std::vector<std::string>>;

// What `bytes` are, when `step` of them come at a time; what is wrong is the last request.
Requests parse(const std::string& bytes, std::size_t step, const RequestLimits& limits = {}) {
  RequestParser parser(limits);
  Requests requests;
  std::string input;
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    input += bytes.substr(at, step);
    for (;;) {
      const auto next = parser.next(input, words);
      if (next == RequestParser::Next::incomplete) break;
      if (next == RequestParser::Next::broken) {
        requests.push_back({parser.error()});
        return requests;
      }
      requests.emplace_back(words.begin(), words.end());
      input.erase(0, parser.consumed());
    }
  }
  return requests;
}

void expect(const std::string& bytes, const Requests& requests, const RequestLimits& limits = {}) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    EXPECT_EQ(parse(bytes, step, limits), requests) << bytes << " in steps of " << step;
  }
}

TEST(RespParser, TakesArraysAndLinesInAnyPieces) {
  expect("*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*1\r\n$0\r\n\r\n", {{"GET", "a"}, {"PING"}, {""}});
  expect("*0\r\n*-1\r\n\r\nPING\n", {{}, {}, {}, {"PING"}});
}

TEST(RespParser, KeepsLineEndsInArguments) { expect("*1\r\n$4\r\n\r\n*1\r\n", {{"\r\n*1"}}); }

TEST(RespParser, Unquotes) {
  expect("SET a \"b c\\n\\x41\\\"\" 'd\\'\\n' \"\"\r\n", {{"SET", "a", "b c\nA\"", "d'\\n", ""}});
}

TEST(RespParser, SaysWhatIsWrong) {
  expect("*x\r\n", {{"ERR Protocol error: invalid multibulk length"}});
  expect("*1\r\n+a\r\n", {{"ERR Protocol error: expected '$', got '+'"}});
  expect("*1\r\n$-1\r\n", {{"ERR Protocol error: invalid bulk length"}});
  expect("*1\r\n$1\r\nabc", {{"ERR Protocol error: invalid bulk length"}});
  expect("GET \"a\r\n", {{"ERR Protocol error: unbalanced quotes in request"}});
  expect("GET \"a\"b\r\n", {{"ERR Protocol error: unbalanced quotes in request"}});
}

// What is too long is refused before it has come.
TEST(RespParser, HasLimits) {
  const RequestLimits limits{.arguments = 2, .argument_bytes = 8, .request_bytes = 24, .line_bytes = 32};
  expect("*3\r\n", {{"ERR Protocol error: invalid multibulk length"}}, limits);
  expect("*2\r\n$9\r\n", {{"ERR Protocol error: invalid bulk length"}}, limits);
  expect("*2\r\n$8\r\n12345678\r\n$8\r\n", {{"ERR Protocol error: too big a request"}}, limits);
  expect(std::string(40, 'x'), {{"ERR Protocol error: too big inline request"}}, limits);
  expect("*" + std::string(40, '1'), {{"ERR Protocol error: too big mbulk count string"}}, limits);
}

}  // namespace
}  // namespace farside::kv
