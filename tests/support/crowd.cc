#include "tests/support/crowd.h"

#include <iostream>
#include <stdexcept>

#include "tests/support/shared.h"

namespace farside::test {

namespace {

constexpr const char* kProgram = R"(
import resource, socket, sys, time
address, wanted = sys.argv[1], int(sys.argv[2])
spare = 50
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + spare, wanted + spare))
except ValueError:  # only root may raise it
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = hard - spare
if "/" in address:
    family, kinds = socket.AF_UNIX, [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]
else:
    host, port = address.rsplit(":", 1)
    family, kinds, address = socket.AF_INET, [socket.SOCK_STREAM], (host, int(port))

def connect():
    for kind in kinds:
        connection = socket.socket(family, kind)
        try:
            connection.connect(address)
            return connection
        except OSError as error:
            if kind == kinds[-1]:
                raise
            connection.close()

crowd = []
for number in range(wanted):
    crowd.append(connect())
    try:
        if number % 2:
            crowd[-1].send(b"\0" * 7)
    except OSError:  # it was sent away already
        pass
print(len(crowd), flush=True)
time.sleep(3600)
)";

}  // namespace

Crowd::Crowd(const std::string& address, std::size_t wanted)
    : wanted_(wanted), process_({"/usr/bin/python3", "-c", kProgram, address, std::to_string(wanted)}) {}

std::size_t Crowd::wait_until_complete() {
  if (!eventually([this] { return process_.out().ends_with('\n'); }, std::chrono::seconds(90))) {
    throw std::runtime_error("the crowd did not connect");
  }
  const std::size_t size = std::stoul(process_.out());
  if (size < wanted_) std::cout << "Only " << size << " of " << wanted_ << " connections: ulimit -n allows no more.\n";
  return size;
}

}  // namespace farside::test
