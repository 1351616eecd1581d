// The server with real sockets: many clients, rude ones, and its end.
#include "kv/resp/resp_server.h"

#include <array>
#include <filesystem>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/socket.h"
#include "tests/kv/resp/memory_session.h"
#include "tests/support/descriptors.h"

namespace farside::kv {
namespace {

using test::expect_resident_below;
using test::resident_bytes;

net::SetupClock::time_point soon() { return net::SetupClock::now() + std::chrono::seconds(60); }

#ifdef __SANITIZE_THREAD__
constexpr bool kCopiesSlowly = true;
#else
constexpr bool kCopiesSlowly = false;
#endif

class RespServing : public testing::Test {
 protected:
  RespServing() { start({}); }

  void start(const RespSettings& settings) {
    server_.reset();
    const auto local =
        std::filesystem::temp_directory_path() / ("farside-resp-" + std::to_string(::getpid()) + ".sock");
    const std::vector<std::string> addresses{"127.0.0.1:0", local};
    server_.emplace(addresses, settings, 2, [this] { return std::make_unique<test::MemorySession>(keys_); });
  }

  Fd connect() { return net::connect_to(server_->listeners().front().address(), soon()); }

  static void expect(const Fd& socket, const std::string& request, const std::string& reply) {
    net::write_all(socket, request, soon());
    EXPECT_EQ(net::read_exactly(socket, reply.size(), soon()), reply) << request;
  }

  // What comes until the server closes the connection.
  static std::string rest_of(const Fd& socket) {
    std::string rest;
    std::array<char, 64 << 10> chunk;
    pollfd ready{socket.get(), POLLIN, 0};
    while (::poll(&ready, 1, 60'000) == 1) {
      const ssize_t count = ::recv(socket.get(), chunk.data(), chunk.size(), 0);
      if (count <= 0) return rest;
      rest.append(chunk.data(), static_cast<std::size_t>(count));
    }
    ADD_FAILURE() << "the server did not close the connection";
    return rest;
  }

  std::vector<Fd> several(int count) {
    std::vector<Fd> clients;
    for (int i = 0; i < count; ++i) clients.push_back(connect());
    return clients;
  }

  /// `bytes` again and again until it is disconnected, or takes no more; `at_most` in all.
  static void send_until_refused(const Fd& socket, const std::string& bytes, std::size_t at_most) {
    for (std::size_t sent = 0; sent < at_most;) {
      pollfd ready{socket.get(), POLLOUT, 0};
      if (::poll(&ready, 1, 5000) != 1) return;
      const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
  }

  bool eventually_disconnected(Disconnected why, std::size_t clients) {
    const auto& disconnected = server_->status().disconnected.at(static_cast<std::size_t>(why));
    const auto deadline = soon();
    while (disconnected < clients && net::SetupClock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return disconnected >= clients;
  }

  test::MemoryKeys keys_;
  std::optional<RespServer> server_;
};

// On a machine with other users the second needs no password.
TEST_F(RespServing, ListensAtSeveralAddresses) {
  const std::string path = server_->listeners().back().address();
  expect(net::connect_to(path, soon()), "INCR n\r\n", ":1\r\n");
  expect(connect(), "INCR n\r\n", ":2\r\n");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RespServing, AnswersManyClientsOfBothThreads) {
  std::vector<Fd> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(connect());
  for (std::size_t i = 0; i < clients.size(); ++i)
    expect(clients[i], "INCR n\r\n", ":" + std::to_string(i + 1) + "\r\n");
}

// Sixteen increments at a time from eight clients at once: none is lost, whichever thread they come by.
TEST_F(RespServing, LosesNoIncrement) {
  std::string sixteen;
  for (int i = 0; i < 16; ++i) sixteen += "INCR n\r\n";
  std::vector<Fd> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(connect());
  for (const Fd& client : clients) net::write_all(client, sixteen + "PING\r\nQUIT\r\n", soon());
  for (const Fd& client : clients) EXPECT_TRUE(rest_of(client).ends_with("+PONG\r\n+OK\r\n"));
  expect(connect(), "GET n\r\n", "$3\r\n128\r\n");
}

TEST_F(RespServing, CarriesTheLargestValue) {
  const Fd client = connect();
  const std::string value(std::size_t{16} << 20U, 'v');
  const std::string bulk = "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  expect(client, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n" + bulk, "+OK\r\n");
  expect(client, "GET a\r\n", bulk);
}

// The error arrives, although the client sends the whole value before it reads, and the connection goes on.
TEST_F(RespServing, RefusesAValueThatIsTooLargeAndGoesOn) {
  const Fd client = connect();
  const std::string value((std::size_t{16} << 20U) + 1, 'v');
  const std::string bulk = "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  const std::string refusal = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
  expect(client, "SET a 1\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n" + bulk, "+OK\r\n" + refusal);
  expect(client, "GET a\r\n", "$1\r\n1\r\n");
  expect(client, "MULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n" + bulk + "EXEC\r\n",
         "+OK\r\n" + refusal + "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

TEST_F(RespServing, DisconnectsAClientThatSendsGarbageAndNoOther) {
  const Fd polite = connect();
  const Fd rude = connect();
  net::write_all(rude, "*1\r\n!garbage\r\n", soon());
  EXPECT_EQ(rest_of(rude), "-ERR Protocol error: expected '$', got '!'\r\n");
  expect(polite, "PING\r\n", "+PONG\r\n");
}

TEST_F(RespServing, TurnsAwayWhoIsOneTooMany) {
  start({.clients = 2});
  const Fd first = connect();
  Fd second = connect();
  expect(first, "PING\r\n", "+PONG\r\n");
  expect(second, "PING\r\n", "+PONG\r\n");
  EXPECT_EQ(rest_of(connect()), "-ERR max number of clients reached\r\n");
  net::write_all(second, "QUIT\r\n", soon());
  EXPECT_EQ(rest_of(second), "+OK\r\n");
  const auto deadline = soon();
  while (server_->status().clients > 1 && net::SetupClock::now() < deadline) std::this_thread::yield();
  expect(connect(), "PING\r\n", "+PONG\r\n");
}

// It is told so as well when there is no descriptor left for it, and when there is one again it is served.
TEST_F(RespServing, TurnsAwayAClientThatThereIsNoDescriptorFor) {
  const Fd polite = connect();
  expect(polite, "PING\r\n", "+PONG\r\n");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr rlim_t kFew = 128;
  const rlimit few{.rlim_cur = kFew, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Fd> files;
  while (Fd file{::dup(polite.get())}) files.push_back(std::move(file));
  files.pop_back();
  const std::string told = rest_of(connect());  // with the last one
  EXPECT_EQ(told, "-ERR max number of clients reached\r\n");
  expect(polite, "PING\r\n", "+PONG\r\n");
  files.clear();
  expect(connect(), "PING\r\n", "+PONG\r\n");
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// Who asks and takes nothing costs a bounded amount of memory.
TEST_F(RespServing, DisconnectsWhoTakesNoReplies) {
  start({.output_bytes = std::size_t{1} << 20U});
  const Fd polite = connect();
  const Fd slow = connect();
  expect(slow, "SET a " + std::string(60'000, 'v') + "\r\n", "+OK\r\n");
  std::string asking;
  for (int i = 0; i < 2000; ++i) asking += "GET a\r\n";
  net::write_all(slow, asking, soon());
  EXPECT_LT(rest_of(slow).size(), std::size_t{2000} * 60'000);
  expect(polite, "PING\r\n", "+PONG\r\n");
}

// One that has never said the password is owed a KiB, whatever it asks: hundreds of them cost little.
TEST_F(RespServing, KeepsLittleForClientsWithoutThePassword) {
  start({.password = "secret", .unauthenticated_limit = std::chrono::hours(1)});
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::vector<Fd> greedy = several(10);  // each takes a second there
#else
  const std::vector<Fd> greedy = several(200);
#endif
  const std::uint64_t before = resident_bytes();
  std::string asking;
  while (asking.size() < std::size_t{256} << 10U) asking += "PING\r\n";
  for (const Fd& socket : greedy) send_until_refused(socket, asking, std::size_t{32} << 20U);
  EXPECT_TRUE(eventually_disconnected(Disconnected::output, greedy.size()));
  expect_resident_below(before + (std::uint64_t{64} << 20U));
  expect(connect(), "AUTH secret\r\nPING\r\n", "+OK\r\n+PONG\r\n");
}

TEST_F(RespServing, DisconnectsWhoDoesNotGiveThePassword) {
  start({.password = "secret", .unauthenticated_limit = std::chrono::milliseconds(10)});
  const Fd known = connect();
  expect(known, "AUTH secret\r\n", "+OK\r\n");
  const Fd idle = connect();
  const Fd chatting = connect();
  net::write_all(chatting, "GET a\r\nAUTH", soon());
  EXPECT_EQ(rest_of(idle), "");
  EXPECT_EQ(rest_of(chatting), "-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(eventually_disconnected(Disconnected::unauthenticated, 2));
  expect(known, "PING\r\n", "+PONG\r\n");
}

// After a wrong one what follows waits, on this connection alone; and it counts.
TEST_F(RespServing, TakesPasswordsSlowly) {
  constexpr std::chrono::milliseconds kPause{300};
  start({.password = "secret", .wrong_password_pause = kPause});
  const Fd other = connect();
  const Fd guessing = connect();
  const std::string wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
  const auto began = net::SetupClock::now();
  net::write_all(guessing, "AUTH a\r\nAUTH b\r\nAUTH secret\r\nPING\r\n", soon());
  expect(other, "AUTH secret\r\nPING\r\n", "+OK\r\n+PONG\r\n");
  EXPECT_EQ(net::read_exactly(guessing, 2 * wrong.size(), soon()), wrong + wrong);
  EXPECT_EQ(net::read_exactly(guessing, 12, soon()), "+OK\r\n+PONG\r\n");
  EXPECT_GE(net::SetupClock::now() - began, 2 * kPause);
  EXPECT_EQ(server_->status().wrong_passwords, 2U);
}

// What it sends is bounded as well, and is refused before it is stored.
TEST_F(RespServing, TakesLittleFromClientsWithoutThePassword) {
  start({.password = "secret"});
  const Fd client = connect();
  net::write_all(client, std::string(2000, 'x'), soon());
  EXPECT_EQ(rest_of(client), "-ERR Protocol error: too big inline request\r\n");
}

// Those that are owed most make room; a client beside them, on the same thread, is served.
TEST_F(RespServing, DisconnectsTheLargestWhenAllTogetherTakeTooMuch) {
  if (kCopiesSlowly) GTEST_SKIP() << "to copy half a gigabyte takes minutes";
  constexpr std::size_t kLimit = std::size_t{256} << 20U;  // 128 MiB a thread
  start({.buffer_bytes = kLimit});
  const std::vector<Fd> polite = several(2);
  const std::string value(std::size_t{1} << 20U, 'v');
  expect(polite[0], "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$" + std::to_string(value.size()) + "\r\n" + value + "\r\n",
         "+OK\r\n");
  const std::uint64_t before = resident_bytes();
  std::string asking;
  for (int i = 0; i < 60; ++i) asking += "GET a\r\n";
  std::vector<Fd> greedy;
  for (int i = 0; i < 8; ++i) {
    greedy.push_back(connect());
    net::write_all(greedy.back(), asking, soon());
  }
  EXPECT_TRUE(eventually_disconnected(Disconnected::buffers, 4));
  expect_resident_below(before + 2 * kLimit);
  for (const Fd& client : polite) expect(client, "PING\r\n", "+PONG\r\n");
}

// A request that repeats a large value is refused while its reply is made, not afterwards.
TEST_F(RespServing, MakesNoReplyThatIsTooLarge) {
  if (kCopiesSlowly) GTEST_SKIP() << "to copy half a gigabyte takes minutes";
  start({});
  const Fd client = connect();
  const std::string value(std::size_t{4} << 20U, 'v');
  expect(client, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$" + std::to_string(value.size()) + "\r\n" + value + "\r\n", "+OK\r\n");
  const std::uint64_t before = resident_bytes();
  std::string asking = "MGET";
  for (int i = 0; i < 2000; ++i) asking += " a";
  net::write_all(client, asking + "\r\n", soon());
  EXPECT_TRUE(eventually_disconnected(Disconnected::output, 1));
  EXPECT_EQ(rest_of(client), "");
  expect_resident_below(before + (std::uint64_t{512} << 20U));
}

TEST_F(RespServing, DisconnectsWhoTakesNothingForLong) {
  start({.unread_limit = std::chrono::milliseconds(10)});
  const Fd polite = connect();
  const Fd idle = connect();
  expect(idle, "SET a " + std::string(60'000, 'v') + "\r\n", "+OK\r\n");
  const Fd stuck = connect();
  std::string asking;
  for (int i = 0; i < 1000; ++i) asking += "GET a\r\n";
  net::write_all(stuck, asking, soon());
  EXPECT_TRUE(eventually_disconnected(Disconnected::unread, 1));
  for (const Fd* client : {&polite, &idle}) expect(*client, "PING\r\n", "+PONG\r\n");
}

TEST_F(RespServing, EndsWhileClientsAreConnected) {
  const Fd client = connect();
  expect(client, "PING\r\n", "+PONG\r\n");
  server_.reset();
  EXPECT_EQ(rest_of(client), "");
}

}  // namespace
}  // namespace farside::kv
