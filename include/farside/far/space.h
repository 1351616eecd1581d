// space.h — what stands between far memory's pool and its users: addresses whose bytes are kept elsewhere.
//
// The pool (src/far/protocol) makes Spaces of memory that nodes lend; the users (the pager, the block device) know no
// more than this of where their pages are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "farside/fabric/fabric.h"

namespace farside::far {

/// How a Transfer list ended.
enum class [[nodiscard]] Status : std::uint8_t{
    done,
    timed_out,  ///< a write may have taken effect, or may still, until the next one near it, of any I/O context, begins
    lost,       ///< bytes asked for are gone: their node is lost, and there is no copy; or a part of a block (4 KiB) of
                ///< such bytes was to be written or discarded; or no node is left to write to
    full,       ///< no node has room for what is written; what had a place was written
};

[[nodiscard]] std::string_view to_string(Status status);

/// Bytes of a space, and where they are on this side.
struct Transfer {
  std::uint64_t offset;
  LocalSpan local;
};

/// One thread's access to a space. All transfers of a list are under way at once, and none when the call returns. Lists
/// overlapping another I/O context's that is under way are mixed with it, 8 bytes at a time at best.
class IoContext {
 public:
  virtual ~IoContext() = default;
  IoContext(const IoContext&) = delete;
  IoContext& operator=(const IoContext&) = delete;

  /// Bytes that were never written, or discarded since, read as zeros.
  [[nodiscard]] virtual Status read(std::span<const Transfer> list, Deadline deadline) = 0;
  /// Done: every read that begins later finds it, on any I/O context; and it survives what the space's user chose to
  /// survive.
  [[nodiscard]] virtual Status write(std::span<const Transfer> list, Deadline deadline) = 0;
  /// Reads as zeros afterwards, and the memory of whatever is wholly unused is given back.
  [[nodiscard]] virtual Status discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) = 0;

 protected:
  IoContext() = default;
};

/// Thread safety: every call, from any thread. I/O contexts go before their space.
class Space {
 public:
  virtual ~Space() = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  /// Offsets are below this. Memory is taken as it is written to.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  [[nodiscard]] virtual Fabric& fabric() = 0;
  [[nodiscard]] virtual std::unique_ptr<IoContext> open_io() = 0;

 protected:
  Space() = default;
};

}  // namespace farside::far
