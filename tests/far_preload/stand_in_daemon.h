// stand_in_daemon.h — the other side of the preload library, as small as can be: one thread, a std::map for the space,
// and pages that leave in the order in which they came.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "farside/base/fd.h"

#include "far/daemon/messages.h"

namespace farside::test {

/// What a broken daemon does otherwise; the library's tests must see it.
struct StandInRules {
  bool keeps_bytes = true;           ///< no: pages that left come back as zeros
  bool discards = true;              ///< no: only says so
  bool copies_space_at_fork = true;  ///< no: the child finds zeros in the place of what was not here
  bool refuses = false;              ///< yes: every program that wants to join
};

struct StandInOptions {
  std::uint64_t arena_bytes = std::uint64_t{1} << 30U;
  std::uint64_t threshold_bytes = std::uint64_t{1} << 20U;
  std::size_t budget_pages = 256;  ///< of each process
  StandInRules rules{};
};

class StandInDaemon {
 public:
  explicit StandInDaemon(StandInOptions options = {});
  StandInDaemon(const StandInDaemon&) = delete;
  StandInDaemon& operator=(const StandInDaemon&) = delete;
  ~StandInDaemon();

  [[nodiscard]] std::string socket() const { return directory_ / "daemon"; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::uint64_t discards() const { return discards_; }
  [[nodiscard]] std::uint64_t joined() const { return joined_; }

 private:
  using Page = std::vector<std::byte>;
  struct Process {
    pid_t pid = 0;
    Fd userfault;
    Fd memory;
    std::vector<far::AddressRange> ranges;
    std::map<std::uint64_t, Page> space;  ///< of what is not here
    std::map<std::uint64_t, bool> here;   ///< by address
    std::deque<std::uint64_t> order;      ///< in which they came; some are gone
    std::map<std::uint64_t, Page> forked_space;
    bool is_forking = false;
  };
  struct Connection {
    Fd fd;
    std::shared_ptr<Process> process;  ///< of a main connection
    std::shared_ptr<Process> parent;   ///< of a fork's
  };

  void serve();
  void send_hello();
  [[nodiscard]] bool obey(Connection& connection);
  void join(Connection& connection, const far::DaemonPacket& packet, pid_t pid, Fd userfault);
  [[nodiscard]] bool drop_and_wait(Connection& connection, const far::DaemonPacket& drop);
  void discard(Process& process, const far::DaemonPacket& packet);
  void serve_faults(Connection& connection);
  void evict(Connection& connection);
  [[nodiscard]] std::shared_ptr<Process> process_with(std::uint64_t token) const;
  [[nodiscard]] Connection& main_connection(const Process& process);

  const StandInOptions options_;
  std::filesystem::path directory_;
  Fd listener_;
  Fd stop_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<std::uint64_t> discards_{0};
  std::atomic<std::uint64_t> joined_{0};
  std::thread thread_;
};

}  // namespace farside::test
