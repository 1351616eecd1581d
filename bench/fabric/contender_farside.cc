// farside's own operations, on the fabric that FARSIDE_FABRIC names.
#include <vector>

#include "bench/fabric/mesh.h"
#include "bench/fabric/work.h"

namespace farside::bench {
namespace {

class Initiator {
 public:
  explicit Initiator(const Mesh& mesh) : mesh_(mesh), buffer_(kRegionBytes, std::byte{1}), olds_(kDeepest) {}

  void run(const Work& work, std::uint64_t rounds) {
    const Deadline deadline = mesh_.fabric->in(kTimeout);
    for (; rounds != 0; --rounds) check(work.depth == 1 ? one(work, deadline) : many(work, deadline));
  }

 private:
  [[nodiscard]] LocalSpan here(const Work& work, std::uint64_t i) {
    return {buffer_.data() + work.offset(i), work.bytes};
  }
  [[nodiscard]] RemoteSpan there(const Work& work, std::uint64_t i) const {
    return mesh_.remote->span(work.offset(i), work.bytes);
  }

  Outcome one(const Work& work, Deadline deadline) {
    Channel& channel = *mesh_.channel;
    switch (work.operation) {
      case Operation::read: return channel.read(here(work, 0), there(work, 0), deadline);
      case Operation::write:
        check(channel.write(there(work, 0), here(work, 0), deadline));
        return channel.flush(1, deadline);
      case Operation::fetch_add: return channel.fetch_add(mesh_.remote->word<AtomicWord>(0), 1, deadline).status;
    }
    return Outcome::done;
  }

  Outcome many(const Work& work, Deadline deadline) {
    Batch batch(*mesh_.channel);
    for (std::uint64_t i = 0; i < work.depth; ++i) {
      switch (work.operation) {
        case Operation::read: batch.read(here(work, i), there(work, i)); break;
        case Operation::write: batch.write(there(work, i), here(work, i)); break;
        case Operation::fetch_add: batch.fetch_add(mesh_.remote->word<AtomicWord>(work.offset(i)), 1, olds_[i]); break;
      }
    }
    const Outcome outcome = batch.wait(deadline);
    if (outcome != Outcome::done || work.operation != Operation::write) return outcome;
    return mesh_.channel->flush(1, deadline);
  }

  const Mesh& mesh_;
  std::vector<std::byte> buffer_;
  std::vector<std::uint64_t> olds_;
};

}  // namespace
}  // namespace farside::bench

int main() {
  using namespace farside::bench;
  const auto initiate = [](const Line& line) {
    const Mesh mesh = connect_pair(line);
    Initiator initiator(mesh);
    initiator.run({Operation::write, kLargestBytes, kRegionBytes / kLargestBytes}, 1);  // every page is there
    answer_questions([&](const Work& work, std::uint64_t rounds) { initiator.run(work, rounds); });
  };
  const auto be_target = [](const Line& line) {
    const Mesh mesh = connect_pair(line);
    static_cast<void>(line.receive());  // nothing, when the initiator ends
  };
  return run_pair(initiate, be_target);
}
