// How the UCX engine connects, to which peers it connects again, and what it refuses.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

#include <gtest/gtest.h>

#include "fabric/ucx/messages.h"
#include "tests/fabric/ucx_faults.h"
#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

// A number whose process went may be given to another one.
TEST(UcxEngine, PeerNumberServesANewIncarnation) {
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto addresses = me.exchange(node.engine->address());
    const auto handles = me.exchange(node.memory->handle());
    if (me.index() == 0) {
      std::uint64_t value = 5;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.engine->revoke(node.engine->peer(1), default_deadline()), Outcome::done);
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::peer_lost);
      (void)node.channel->flush(1, default_deadline());
      node.engine->connect(1, addresses[2]);
      EXPECT_FALSE(node.engine->lost(1));
      const RemoteRegion again("test", 1, 4096, nullptr, UcxEngine::attach(node.engine->peer(1), handles[2]));
      Completion completion;
      node.channel->post({Kind::write, &again, 8, reinterpret_cast<std::byte*>(&value), 8, 0, 0}, completion);
      node.channel->finish(completion, default_deadline());
      EXPECT_EQ(completion.outcome, Outcome::done);
      EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
    }
    me.barrier();
    EXPECT_EQ(look(node.words[1]), me.index() == 2 ? 5u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// The target takes the connections of one channel in their order. One that was given up before it sent its hello must
// neither shut the next out nor hide it from revoke. (UCX may fail the next one once, for they share a socket.)
TEST(UcxEngine, ConnectionGivenUpBeforeItsHelloDoesNotShiftTheNext) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto addresses = me.exchange(node.engine->address());
    const auto handles = me.exchange(node.memory->handle());
    const auto pids = me.exchange(std::to_string(::getpid()));
    std::uint64_t value = 5;
    if (me.index() == 0) {
      stop(std::stoi(pids[1]));
      EXPECT_EQ(node.write(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
      node.engine->mark_lost(1);
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::peer_lost);
      node.engine->connect(1, addresses[1]);
      node.remotes[1] =
          std::make_unique<RemoteRegion>("test", 1, 4096, nullptr, UcxEngine::attach(node.engine->peer(1), handles[1]));
      EXPECT_EQ(node.write(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(std::stoi(pids[1]), SIGCONT), 0);
      EXPECT_TRUE(eventually([&] {
        return node.write(1, 0, &value, 8) == Outcome::done &&
               node.channel->flush(1, default_deadline()) == Outcome::done;
      }));
    }
    me.barrier();
    if (me.index() == 1) {
      EXPECT_EQ(look(node.words[0]), 5u);
      EXPECT_EQ(node.engine->revoke(node.engine->peer(0), default_deadline()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 0) {
      value = 6;
      (void)node.write(1, 0, &value, 8);
      EXPECT_NE(node.channel->flush(1, default_deadline()), Outcome::done);
      EXPECT_TRUE(eventually([&] { return node.read(1, 0, &value, 8) == Outcome::peer_lost; }));
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 1 ? 5u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// UCX crashes on what it did not make itself, so nothing of the kind may get through to it.
TEST(UcxEngine, RefusesAddressesAndHandlesThatWereAltered) {
  Fleet fleet(1, [](Member& /*me*/) {
    Node node(4096);
    const std::string address = node.engine->address();
    node.engine->connect(0, address);
    const std::string handle = node.memory->handle();
    for (const std::string& right : {address, handle}) {
      for (std::size_t at = 0; at < right.size(); ++at) {
        std::string wrong = right;
        wrong[at] ^= 4;
        EXPECT_THROW(node.engine->connect(0, wrong), Error);
        EXPECT_THROW((void)UcxEngine::attach(node.engine->peer(0), wrong), Error);
        EXPECT_THROW(node.engine->connect(0, right.substr(0, at)), Error);
      }
    }
    EXPECT_THROW(node.engine->connect(0, handle), Error);
    EXPECT_THROW((void)UcxEngine::attach(node.engine->peer(0), address), Error);
    EXPECT_THROW((void)UcxEngine::attach(node.engine->peer(9), handle), Error);
  });
  fleet.expect_success();
}

/// Says to an engine what no engine says.
class Stranger {
 public:
  explicit Stranger(const std::string& address, std::string secret = {})
      : address_(UcxAddress::decode(address)), secret_(std::move(secret)) {
    worker_.on_message(kAnswerMessage, &hear, this);
    open();
  }

  /// Instead of the connection before.
  void open() { to_ = UcxEndpoint(worker_, address_.worker, &ignore, nullptr); }
  /// As a channel does, over TCP: once the connection is up.
  void send_hello(std::uint64_t nth) {
    const std::string hello = hello_of(nth, nth);
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    EXPECT_TRUE(eventually([&] {
      worker_.progress();
      return ucp_am_send_nbx(to_.get(), kHelloMessage, nullptr, 0, hello.data(), hello.size(), &params) == nullptr;
    }));
  }
  /// In the name of a worker that does not exist.
  void send_hello_for(std::uint64_t worker) {
    const UcxHello hello{{3, 4}, worker, 1, 1, "made up: " + std::to_string(worker)};
    say(hello.encode(secret_, address_.identity), UCP_AM_SEND_FLAG_EAGER);
  }
  /// Whether the link that sent the nth hello comes to be welcome.
  bool is_welcomed(std::uint64_t nth, Duration limit = 30s) {
    return eventually(
        [&] {
          worker_.progress();
          return answer_.link == nth && answer_.welcome == 1;
        },
        limit);
  }
  /// Whether a READ of `handle`'s memory comes back.
  bool reaches(const std::string& handle) {
    const UcxRemoteMemory memory = UcxRemoteMemory::decode(handle);
    ucp_rkey_h key = nullptr;
    if (ucp_ep_rkey_unpack(to_.get(), memory.packed_key.data(), &key) != UCS_OK) return false;
    const UcxKey owned(key);
    std::uint64_t word = 0;
    ucp_request_param_t params{};
    const ucs_status_ptr_t request = ucp_get_nbx(to_.get(), &word, sizeof word, memory.base, key, &params);
    if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request) == UCS_OK;
    ucs_status_t status = UCS_INPROGRESS;
    (void)eventually(
        [&] {
          worker_.progress();
          return (status = ucp_request_check_status(request)) != UCS_INPROGRESS;
        },
        5s);
    if (status == UCS_INPROGRESS) {  // it writes to `word`
      to_.close();
      while (ucp_request_check_status(request) == UCS_INPROGRESS) worker_.progress();
    }
    ucp_request_free(request);
    return status == UCS_OK;
  }

  void say(const std::string& hello, unsigned flags) { send(kHelloMessage, "", hello, flags); }
  /// Asks for an operation, or for nonsense.
  void ask(std::string_view header, std::string_view data) {
    send(kOperationMessage, header, data, UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER);
  }
  [[nodiscard]] std::string hello_of(std::uint64_t link, std::uint64_t nth) const {
    return UcxHello{{1, 2}, 9, link, nth, worker_.address()}.encode(secret_, address_.identity);
  }

 private:
  void send(unsigned message, std::string_view header, std::string_view data, unsigned flags) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = flags;
    const ucs_status_ptr_t request =
        ucp_am_send_nbx(to_.get(), message, header.data(), header.size(), data.data(), data.size(), &params);
    if (!UCS_PTR_IS_PTR(request)) return;
    EXPECT_TRUE(eventually([&] {
      worker_.progress();
      return ucp_request_check_status(request) != UCS_INPROGRESS;
    }));
    ucp_request_free(request);
  }
  static void ignore(void* /*argument*/, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {}
  static ucs_status_t hear(void* stranger, const void* /*header*/, std::size_t /*header_bytes*/, void* message,
                           std::size_t bytes, const ucp_am_recv_param_t* /*params*/) {
    if (bytes == sizeof answer_) std::memcpy(&static_cast<Stranger*>(stranger)->answer_, message, bytes);
    return UCS_OK;
  }

  const UcxAddress address_;
  const std::string secret_;
  UcxAnswer answer_{};
  UcxContext context_;
  UcxWorker worker_{context_, UCS_THREAD_MODE_SINGLE};
  UcxEndpoint to_;
};

// Neither what is no hello, nor one that is cut short or altered, nor one that miscounts, nor one that only claims
// to be there and to be large, disturbs those that have sent proper hellos; and the log says little of it.
TEST(UcxEngine, OutlivesHellosThatMakeNoSense) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    if (me.index() == 0) testing::internal::CaptureStderr();
    const Time start = monotonic_now();
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[0];
    std::uint64_t value = 5;
    if (me.index() == 1) {
      EXPECT_EQ(node.write(0, 0, &value, 8), Outcome::done);
      Stranger stranger(address);
      const std::string right = stranger.hello_of(3, 1);
      for (std::size_t at = 0; at < right.size(); ++at) {
        std::string wrong = right;
        wrong[at] ^= 4;
        stranger.say(wrong, UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER);
        stranger.say(right.substr(0, at), UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER);
      }
      for (const std::uint64_t nth : {0ul, 100'000ul, ~0ul}) {  // of endpoints that were never opened
        stranger.say(stranger.hello_of(3, nth), UCP_AM_SEND_FLAG_EAGER);
      }
      stranger.say(std::string(64 << 20, 'x'), UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_RNDV);
      value = 6;
      EXPECT_EQ(node.write(0, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.channel->flush(0, default_deadline()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 1) return;
    EXPECT_EQ(look(node.words[0]), 6u);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("a hello"), std::string::npos) << log;
    EXPECT_LE(std::ranges::count(log, '\n'),
              std::chrono::floor<std::chrono::seconds>(monotonic_now() - start).count() + 1);
  });
  fleet.expect_success();
}

// What was never welcomed reaches no memory, and what was reaches none by an operation that makes no sense.
TEST(UcxEngine, CarriesOutWhatWelcomeLinksAskAndNothingElse) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[0];
    const std::string handle = me.exchange(node.memory->handle())[0];
    if (me.index() == 1) {
      const auto ask = [&](Stranger& stranger, Operation::Kind kind, std::uint64_t offset, std::size_t header_bytes) {
        const std::uint64_t base = UcxRemoteMemory::decode(handle).base;
        const UcxOperation operation{1, base + offset, 8, 1, 0, static_cast<std::uint64_t>(kind)};
        const std::string header(reinterpret_cast<const char*>(&operation), sizeof operation);
        stranger.ask(header.substr(0, header_bytes), "12345678");
      };
      Stranger stranger(address);
      ask(stranger, Operation::Kind::write, 8, sizeof(UcxOperation));
      ask(stranger, Operation::Kind::fetch_add, 8, sizeof(UcxOperation));
      stranger.open();
      stranger.send_hello(2);
      EXPECT_TRUE(stranger.is_welcomed(2));
      for (std::size_t cut = 0; cut < sizeof(UcxOperation); ++cut) ask(stranger, Operation::Kind::write, 8, cut);
      ask(stranger, static_cast<Operation::Kind>(5), 8, sizeof(UcxOperation));
      ask(stranger, Operation::Kind::fetch_add, 4, sizeof(UcxOperation));
      ask(stranger, Operation::Kind::write, 16, sizeof(UcxOperation));
      EXPECT_TRUE(eventually([&] {
        std::uint64_t value = 0;
        return node.read(0, 16, &value, 8) == Outcome::done && value != 0;
      }));
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_EQ(look(node.words[0]), 0u);
      EXPECT_EQ(look(node.words[1]), 0u);
    }
  });
  fleet.expect_success();
}

// Links that fail before they send a hello are many while a network is down. The channel must get in when it is back.
TEST(UcxEngine, WelcomesALinkAfterHundredsThatNeverSentHello) {
  constexpr std::uint64_t kNeverSentHello = 300;
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[0];
    if (me.index() == 1) {
      Stranger stranger(address);
      for (std::uint64_t nth = 1; nth <= kNeverSentHello; ++nth) stranger.open();
      stranger.send_hello(kNeverSentHello + 1);
      EXPECT_TRUE(stranger.is_welcomed(kNeverSentHello + 1, 10s));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// What makes no sense must not take from a channel the link that it has.
TEST(UcxEngine, AHelloWithAnImpossibleNumberLeavesTheLinkBefore) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[0];
    const std::string handle = me.exchange(node.memory->handle())[0];
    if (me.index() == 1) {
      Stranger stranger(address);
      stranger.send_hello(1);
      ASSERT_TRUE(stranger.is_welcomed(1));
      EXPECT_TRUE(stranger.reaches(handle));
      for (const std::uint64_t nth : {0ul, 1ul, 100'000ul}) stranger.send_hello(nth);
      // More than the service thread does in one turn, after which it looks at hellos.
      for (int read = 0; read < 200; ++read) ASSERT_TRUE(stranger.reaches(handle)) << read;
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A peer may ask in the name of one worker after the other. The engine forgets those that it has no endpoint to, so
// they count from 1 on again, and keeps the counts of the others, so their next links work.
TEST(UcxEngine, CountsTheEndpointsOfABoundedNumberOfWorkers) {
  constexpr unsigned kMaxWorkers = 65'536;
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[0];
    const std::string handle = me.exchange(node.memory->handle())[0];
    std::uint64_t value = 0;
    EXPECT_EQ(node.read(0, 0, &value, 8), Outcome::done);
    me.barrier();
    ucx_faults().no_endpoints = me.index() == 0;  // which UCX could not make to workers that do not exist
    const unsigned before = ucx_faults().endpoints_asked;
    me.barrier();
    if (me.index() == 1) {
      Stranger stranger(address);
      for (unsigned worker = 0; worker < kMaxWorkers; ++worker) stranger.send_hello_for(worker);
      stranger.send_hello_for(0);  // which is forgotten by then
      me.barrier();
    } else {
      EXPECT_TRUE(eventually([&] { return ucx_faults().endpoints_asked - before == kMaxWorkers + 1; }));
      me.barrier();
    }
    ucx_faults().no_endpoints = false;
    me.barrier();
    if (me.index() == 1) {
      node.engine->mark_lost(0);  // so that the channel takes another link
      node.engine->connect(0, address);
      node.remotes[0] =
          std::make_unique<RemoteRegion>("test", 0, 4096, nullptr, UcxEngine::attach(node.engine->peer(0), handle));
      EXPECT_EQ(node.read(0, 0, &value, 8), Outcome::done);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// UCX would connect to whatever a hello names.
TEST(UcxEngine, AnswersNoHelloThatWasMadeWithoutItsSecret) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096, {.secret = "ours"});
    if (me.index() == 0) testing::internal::CaptureStderr();
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[0];
    if (me.index() == 1) {
      Stranger stranger(address, "theirs");
      stranger.send_hello(1);
      const UcxAddress other{{3, 4}, UcxAddress::decode(address).worker};
      Stranger elsewhere(other.encode(), "ours");  // whose hello was meant for another engine
      elsewhere.send_hello(1);
      Stranger member(address, "ours");
      member.send_hello(1);
      EXPECT_TRUE(member.is_welcomed(1));
      std::uint64_t value = 5;
      EXPECT_EQ(node.write(0, 0, &value, 8), Outcome::done);
    }
    me.barrier();
    if (me.index() == 1) return;
    EXPECT_TRUE(eventually([] {
      static std::string log;
      log += testing::internal::GetCapturedStderr();
      testing::internal::CaptureStderr();
      return log.find("does not know the secret") != std::string::npos;
    }));
    (void)testing::internal::GetCapturedStderr();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
