#include "tests/fabric/ucx_node.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace farside::test {

Node::Node(std::uint64_t bytes, const HostFabricOptions& options) : words(bytes / 8) {
  ::setenv("UCX_NET_DEVICES", "lo", 1);
  engine = std::make_unique<UcxEngine>([this] { ++events; }, options);
  memory = engine->offer(reinterpret_cast<std::byte*>(words.data()), words.size() * 8);
  channel = engine->open_channel();
}

void Node::meet(Member& me) {
  const auto addresses = me.exchange(engine->address());
  const auto handles = me.exchange(memory->handle());
  for (PeerId peer = 0; peer < me.count(); ++peer) {
    engine->connect(peer, addresses[peer]);
    remotes.push_back(std::make_unique<RemoteRegion>("test", peer, words.size() * 8, nullptr,
                                                     UcxEngine::attach(engine->peer(peer), handles[peer])));
  }
  me.barrier();
}

Outcome Node::run(Kind kind, PeerId peer, std::uint64_t offset, void* local, std::uint64_t bytes, Deadline deadline,
                  std::uint64_t operand, std::uint64_t expected) {
  Completion completion;
  channel->post({kind, remotes.at(peer).get(), offset, static_cast<std::byte*>(local), bytes, operand, expected},
                completion);
  channel->finish(completion, deadline);
  return completion.outcome;
}

void stop(pid_t process) {
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  ASSERT_TRUE(eventually([&] {
    const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task");
    return std::all_of(begin(threads), end(threads), [](const auto& thread) {
      std::string text;
      std::getline(std::ifstream(thread.path() / "stat"), text);
      return text.find(") T ") != std::string::npos;
    });
  }));
}

}  // namespace farside::test
