// The plugin that nbdkit loads: `nbdkit farside size=4G` serves far memory of the pool as a block device
// (docs/far_device.md).
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "farside/base/error.h"
#include "farside/base/units.h"
#include "farside/far/pool.h"

#include "nbd/device.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace farside::nbd {
namespace {

struct Plugin {
  far::PoolOptions options;
  std::unique_ptr<Device> device;
};

/// nbdkit calls functions, and gives them nothing of ours before there is a connection.
Plugin& plugin() {
  static Plugin only;
  return only;
}

/// 0, or -1 after telling nbdkit what was thrown.
template <class Do>
int or_told(Do&& what) {
  try {
    what();
    return 0;
  } catch (const std::exception& error) {
    nbdkit_error("%s", error.what());
    return -1;
  }
}

template <class Do>
int answer(Do&& what) {
  far::Status status = far::Status::lost;
  if (or_told([&] { status = what(); }) != 0) {
    nbdkit_set_error(EIO);
    return -1;
  }
  if (status == far::Status::done) return 0;
  nbdkit_error("far memory: %s", std::string(to_string(status)).c_str());
  nbdkit_set_error(status == far::Status::full ? ENOSPC : EIO);
  return -1;
}

// Set-up.

/// nbdkit changes its directory when it goes into the background.
std::filesystem::path absolute(const char* path) { return std::filesystem::absolute(path); }

void choose(far::Protection protection) {
  if (std::exchange(plugin().options.protection, protection)) {
    throw UsageError({"protect", "the device", "it is said twice how", "choose one of mirror= and spill="});
  }
}

int config(const char* key, const char* value) {
  return or_told([&] {
    far::PoolOptions& options = plugin().options;
    const std::string_view name = key;
    if (name == "size") {
      options.bytes = parse_bytes(value, "size");
    } else if (name == "mirror") {
      const int is_mirrored = nbdkit_parse_bool(value);
      if (is_mirrored < 0) throw UsageError({"set", "mirror", "it is neither true nor false", ""});
      choose(is_mirrored == 1 ? far::Protection::mirror : far::Protection::trust_nodes);
    } else if (name == "spill") {
      choose(far::Protection::spill);
      options.spill = absolute(value);
    } else if (name == "pool") {
      options.runtime_dir = absolute(value);
    } else if (name == "server") {
      options.server = value;
    } else if (name == "secret") {
      options.secret = absolute(value);
    } else {
      throw UsageError({"set", std::string(name), "there is no such parameter", "see nbdkit farside --help"});
    }
  });
}

int config_complete() {
  return or_told([] {
    if (plugin().options.bytes == 0) throw UsageError({"make", "a device", "its size is not given", "add size=SIZE"});
  });
}

/// A process that goes into the background can report nothing that is read, so what can fail is tried before.
int get_ready() {
  return or_told([] { (void)far::open_pool(plugin().options); });
}

int after_fork() {
  return or_told([] { plugin().device = std::make_unique<Device>(far::open_pool(plugin().options)); });
}

void cleanup() { plugin().device.reset(); }

// A connection: all are the one device.

void* open(int /*readonly*/) { return plugin().device.get(); }

Device& device(void* handle) { return *static_cast<Device*>(handle); }

std::int64_t get_size(void* handle) { return static_cast<std::int64_t>(device(handle).bytes()); }

int yes(void* /*handle*/) { return 1; }

int can_fua(void* /*handle*/) { return NBDKIT_FUA_NATIVE; }

int block_size(void* /*handle*/, std::uint32_t* minimum, std::uint32_t* preferred, std::uint32_t* maximum) {
  *minimum = 1;
  *preferred = WrittenBlocks::kBlockBytes;
  *maximum = UINT32_MAX;
  return 0;
}

// Requests.

int pread(void* handle, void* into, std::uint32_t bytes, std::uint64_t offset, std::uint32_t /*flags*/) {
  return answer([&] { return device(handle).read({static_cast<std::byte*>(into), bytes}, offset); });
}

int pwrite(void* handle, const void* from, std::uint32_t bytes, std::uint64_t offset, std::uint32_t /*flags*/) {
  auto* const bytes_of_nbdkit = static_cast<std::byte*>(const_cast<void*>(from));  // NOLINT: they are only read
  return answer([&] { return device(handle).write({bytes_of_nbdkit, bytes}, offset); });
}

int flush(void* /*handle*/, std::uint32_t /*flags*/) { return 0; }

int trim(void* handle, std::uint32_t bytes, std::uint64_t offset, std::uint32_t /*flags*/) {
  return answer([&] { return device(handle).discard(offset, bytes); });
}

/// Without MAY_TRIM, too: what is discarded may find no room again, but so may anything that is written.
int zero(void* handle, std::uint32_t bytes, std::uint64_t offset, std::uint32_t /*flags*/) {
  return answer([&] { return device(handle).discard(offset, bytes); });
}

int extents(void* handle, std::uint32_t bytes, std::uint64_t offset, std::uint32_t flags, nbdkit_extents* found) {
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    const WrittenBlocks::Run run = device(handle).written().run_at(offset, end);
    const std::uint32_t kind = run.written ? 0 : NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO;
    if (nbdkit_add_extent(found, offset, run.bytes, kind) != 0) return -1;
    if ((flags & NBDKIT_FLAG_REQ_ONE) != 0) return 0;
    offset += run.bytes;
  }
  return 0;
}

nbdkit_plugin registered() {
  nbdkit_plugin made{};
  made.name = "farside";
  made.longname = "far memory of a farside pool";
  made.version = FARSIDE_VERSION;
  made.config = config;
  made.config_complete = config_complete;
  made.config_help =
      "size=SIZE     (required) Of the device: 4096, 512M, 4G.\n"
      "mirror=BOOL   Keep everything on two nodes: what one has outlives it. Without this the nodes of this machine "
      "are\n"
      "              trusted, and of a pool on several machines nothing is until it is said.\n"
      "spill=FILE    Instead: queue everything for a file as well, and read there what a lost node had. Must not be "
      "there.\n"
      "pool=DIR      The pool's runtime directory, if it is not this user's own.\n"
      "server=HOST:PORT   One of a pool that has no node on this machine, and secret=FILE, what it knows.";
  made.magic_config_key = "size";
  made.get_ready = get_ready;
  made.after_fork = after_fork;
  made.cleanup = cleanup;
  made.open = open;
  made.get_size = get_size;
  made.block_size = block_size;
  made.can_multi_conn = yes;
  made.can_trim = yes;
  made.can_zero = yes;
  made.can_extents = yes;
  made.can_flush = yes;
  made.can_fua = can_fua;
  made.pread = pread;
  made.pwrite = pwrite;
  made.flush = flush;
  made.trim = trim;
  made.zero = zero;
  made.extents = extents;
  return made;
}

}  // namespace
}  // namespace farside::nbd

// NOLINTBEGIN: nbdkit's way to find a plugin
static nbdkit_plugin farside_plugin = farside::nbd::registered();
NBDKIT_REGISTER_PLUGIN(farside_plugin)
// NOLINTEND
