// A Redis server of its own on a port of this host, without persistence; a connection for each thread.
#include <csignal>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench/harness/contend.h"
#include "bench/harness/contender.h"
#include "bench/kv/clients.h"
#include "bench/kv/free_port.h"
#include "bench/kv/redis_reply.h"

namespace farside::bench {
namespace {

struct Freed {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Connected = std::unique_ptr<redisContext, Freed>;

class RedisClient final : public KvClient {
 public:
  explicit RedisClient(Connected redis) : redis_(std::move(redis)) {}

  void read(std::span<const std::string_view> keys, std::size_t value_bytes) override {
    begin("MGET");
    for (const std::string_view key : keys) add(key);
    expect_values(*ask(), keys.size(), value_bytes);
  }
  void write(std::span<const std::string_view> keys, std::string_view value) override {
    begin("MSET");
    for (const std::string_view key : keys) {
      add(key);
      add(value);
    }
    expect_ok(*ask());
  }

 private:
  void begin(std::string_view command) {
    words_.clear();
    lengths_.clear();
    add(command);
  }
  void add(std::string_view word) {
    words_.push_back(word.data());
    lengths_.push_back(word.size());
  }
  std::unique_ptr<redisReply, Freed> ask() {
    auto* const reply = static_cast<redisReply*>(
        redisCommandArgv(redis_.get(), static_cast<int>(words_.size()), words_.data(), lengths_.data()));
    if (reply == nullptr) throw std::runtime_error(std::string("Redis: ") + redis_->errstr);
    std::unique_ptr<redisReply, Freed> owned(reply);
    if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(std::string("Redis: ") + reply->str);
    return owned;
  }

  Connected redis_;
  std::vector<const char*> words_;
  std::vector<std::size_t> lengths_;
};

pid_t start_redis(int port) {
  const std::string text = std::to_string(port);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("no process for Redis");
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::execlp("redis-server", "redis-server", "--port", text.c_str(), "--bind", "127.0.0.1", "--save", "", "--appendonly",
           "no", nullptr);
  ::_exit(127);
}

Connected connect(int port) {
  constexpr int kTries = 3000;
  for (int i = 0; i < kTries; ++i) {
    Connected redis(redisConnect("127.0.0.1", port));
    if (redis != nullptr && redis->err == 0) return redis;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("redis-server did not start");
}

void run() {
  const int port = free_port();
  const pid_t pid = start_redis(port);
  const Child server(pid);
  ::setpgid(pid, pid);
  std::map<unsigned, std::unique_ptr<RedisClient>> clients;
  const auto client_of = [&](unsigned thread, const std::string&) -> KvClient& {
    auto& client = clients[thread];
    if (client == nullptr) client = std::make_unique<RedisClient>(connect(port));
    return *client;
  };
  (void)client_of(0, {});
  KvClients(client_of, {pid}).answer_questions();
  ::kill(pid, SIGTERM);
}

}  // namespace
}  // namespace farside::bench

int main() { return farside::bench::contend(farside::bench::run); }
