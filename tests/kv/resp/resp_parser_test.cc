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
      if (next == RequestParser::Next::broken) {
        requests.push_back({parser.error()});
        return requests;
      }
      if (next == RequestParser::Next::request) requests.emplace_back(words.begin(), words.end());
      if (next == RequestParser::Next::too_large) requests.push_back({"too large"});
      input.erase(0, parser.consumed());
      if (next == RequestParser::Next::incomplete) break;
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

// A request that is too large is skipped without being stored; what follows it is understood.
TEST(RespParser, SkipsARequestThatIsTooLarge) {
  const RequestLimits limits{.arguments = 3, .argument_bytes = 8, .request_bytes = 24, .skipped_argument_bytes = 100};
  const std::string nine = "$9\r\n123456789\r\n";
  const std::string eight = "$8\r\n12345678\r\n";
  expect("*2\r\n$3\r\nGET\r\n" + nine + "PING\r\n", {{"too large"}, {"PING"}}, limits);
  expect("*3\r\n" + nine + eight + nine + "*1\r\n$0\r\n\r\n", {{"too large"}, {""}}, limits);
  expect("*3\r\n" + eight + eight + eight + "PING\r\n", {{"too large"}, {"PING"}}, limits);
  expect("*2\r\n" + nine + "+", {{"ERR Protocol error: expected '$', got '+'"}}, limits);
  expect("*2\r\n" + nine + "$101\r\n", {{"ERR Protocol error: invalid bulk length"}}, limits);
}

TEST(RespParser, KeepsNothingOfWhatItSkips) {
  RequestParser parser({.argument_bytes = 8});
  std::vector<std::string_view> words;
  std::string input = "*2\r\n$1000000\r\n";
  for (int i = 0; i < 100; ++i) {
    input.append(10'000, 'x');
    EXPECT_EQ(parser.next(input, words), RequestParser::Next::incomplete);
    EXPECT_EQ(parser.consumed(), input.size());
    input.clear();
  }
  input = "\r\n$1\r\nx\r\n";
  EXPECT_EQ(parser.next(input, words), RequestParser::Next::too_large);
}

// What is too long is refused before it has come.
TEST(RespParser, HasLimits) {
  const RequestLimits limits{
      .arguments = 2, .argument_bytes = 8, .request_bytes = 24, .line_bytes = 32, .skipped_argument_bytes = 0};
  expect("*3\r\n", {{"ERR Protocol error: invalid multibulk length"}}, limits);
  expect("*2\r\n$9\r\n", {{"ERR Protocol error: invalid bulk length"}}, limits);
  expect("*2\r\n$8\r\n12345678\r\n$8\r\n", {{"ERR Protocol error: too big a request"}}, limits);
  expect(std::string(40, 'x'), {{"ERR Protocol error: too big inline request"}}, limits);
  expect("*" + std::string(40, '1'), {{"ERR Protocol error: too big mbulk count string"}}, limits);
}

}  // namespace
}  // namespace farside::kv
