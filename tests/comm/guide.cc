// The samples of docs/comm.md, word for word (guide_test compares them), as one program.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <vector>

#include "farside/base/error.h"
#include "farside/comm/barrier.h"
#include "farside/comm/collectives.h"
#include "farside/comm/messages.h"

namespace {

using namespace farside;

// Before memory goes that other ranks may still use.
void leave(comm::Comm& comm) {
  const Deadline deadline = comm.team().fabric().in(std::chrono::seconds(60));
  const bool done = comm.wait(*comm.open_channel(), comm.issued(), deadline).done();
  if (!done || comm.team().barrier(deadline) != Outcome::done) throw Error({"leave", "a sample", "a rank is lost", ""});
}

void copy(comm::Comm& comm) {
  team::Team& team = comm.team();
  const auto channel = comm.open_channel();  // of this thread
  const Deadline deadline = team.fabric().in(std::chrono::seconds(60));

  // Memory that peers may access, of the same size at each rank: a flag, and from byte 64 on 1000 numbers.
  const auto memory = team.allocate("inbox", 64 + 8 * 1000);
  const RemoteRegion& next = memory->of((team.rank() + 1) % team.size());

  std::vector<double> numbers(1000, team.rank());
  const comm::Request sent =
      comm.put(*channel, next.span(64, 8 * 1000), LocalSpan(numbers.data(), 8 * 1000),
               comm::SetWord{next.word<ControlWord>(0), 1});  // the flag is set when all the numbers are there
  // Here the program computes. The copy goes on in the background.

  const auto flag = memory->local().word<ControlWord>(0);
  const auto is_set = [](std::uint64_t value) { return value == 1; };
  if (channel->wait_until(memory->local(), flag, is_set, deadline) == Outcome::done) {
    std::vector<double> arrived(1000);
    memory->local().copy_out(64, std::as_writable_bytes(std::span(arrived)));
    std::cout << "rank " << team.rank() << " was sent " << arrived[0] << '\n';
  }
  const comm::Status status = comm.wait(*channel, sent, deadline);  // from here on `numbers` may change
  if (status.outcome == Outcome::peer_lost) std::cout << "rank " << *status.lost << " is lost\n";

  if (!status.done()) throw Error({"put", "1000 numbers", "a rank is lost", ""});
  leave(comm);
}

void reduce(comm::Comm& comm) {
  const auto channel = comm.open_channel();
  const Deadline deadline = comm.team().fabric().in(std::chrono::seconds(60));

  comm::Collectives all(comm);
  std::vector<double> sums(3, comm.team().rank());
  auto pending = all.begin_all_reduce(*channel, sums, deadline);
  // Here the program computes.
  const comm::Status status = pending.end(*channel, deadline);  // each rank has the same sums now

  if (!status.done() || sums[0] != 3) throw Error({"reduce", "three numbers", "it gave another sum", ""});
  leave(comm);
}

void call(comm::Comm& comm) {
  const auto channel = comm.open_channel();
  const Deadline deadline = comm.team().fabric().in(std::chrono::seconds(60));
  comm::Barrier barrier(comm);

  std::atomic<std::uint64_t> answers = 0;
  const auto ask = [](comm::Messages::Call& call) {  // runs on the receiver's service thread
    (void)call.reply({.handler = 1, .words = {2 * call.words()[0]}});
  };
  const auto answer = [&answers](comm::Messages::Call& call) { answers += call.words()[0]; };
  comm::Messages messages(comm, {ask, answer});
  if (comm.team().rank() == 0) {
    const comm::Status sent = messages.send(*channel, 1, {.handler = 0, .words = {21}}, deadline);
    while (sent.done() && answers == 0) comm.team().fabric().sleep(std::chrono::milliseconds(1));
  }
  const comm::Status met = barrier.pass(*channel, deadline);  // no rank leaves before

  if (!met.done()) throw Error({"leave", "a sample", "a rank is lost", ""});
  if (comm.team().rank() == 0 && answers != 42) throw Error({"call", "rank 1", "it gave another answer", ""});
  leave(comm);
}

void run() {
  const auto team = team::join_team();
  comm::Comm comm(*team);

  copy(comm);
  reduce(comm);
  call(comm);
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
