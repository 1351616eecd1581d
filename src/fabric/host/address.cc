#include "fabric/host/address.h"

#include "base/wire.h"
#include "fabric/seal.h"

namespace farside {

namespace {

constexpr const char* kAddressName = "the address of a peer";
constexpr const char* kHandleName = "the handle of a region";
constexpr std::size_t kMaxAddressBytes = 4096;
constexpr std::size_t kMaxHandleBytes = 1024;

std::string checked(std::string encoded, std::size_t max_bytes, const char* what) {
  if (encoded.size() > max_bytes) {
    throw Error({"describe", what,
                 "it would take " + std::to_string(encoded.size()) + " bytes of at most " + std::to_string(max_bytes),
                 "limit UCX to fewer devices with UCX_NET_DEVICES"});
  }
  return encoded;
}

}  // namespace

std::string ProcessAddress::encode() const {
  Encoder out;
  out.number(static_cast<std::uint32_t>(process.pid)).number(process.start_ticks);
  out.text(host).text(ucx);
  return checked(seal(SealKind::process, out.take()), kMaxAddressBytes, "the address of this process");
}

ProcessAddress ProcessAddress::decode(std::string_view bytes) {
  Decoder in(unseal(SealKind::process, bytes, kAddressName), kAddressName);
  ProcessAddress address;
  address.process.pid = in.number<pid_t>();
  address.process.start_ticks = in.number<std::uint64_t>();
  in.expect(address.process.pid > 0, "its process id is not positive");  // kill treats 0 and -1 as groups
  address.host = in.text();
  address.ucx = in.text();
  in.expect_end();
  return address;
}

std::string RegionHandle::encode() const {
  Encoder out;
  out.number(static_cast<std::int32_t>(fd)).number(bytes).number(device).number(inode);
  out.text(name).text(ucx);
  return checked(seal(SealKind::region, out.take()), kMaxHandleBytes, "a region");
}

RegionHandle RegionHandle::decode(std::string_view bytes) {
  Decoder in(unseal(SealKind::region, bytes, kHandleName), kHandleName);
  RegionHandle handle;
  handle.fd = in.number<std::int32_t>();
  handle.bytes = in.number<std::uint64_t>();
  handle.device = in.number<std::uint64_t>();
  handle.inode = in.number<std::uint64_t>();
  handle.name = in.text();
  handle.ucx = in.text();
  in.expect_end();
  in.expect(handle.fd >= 0, "its descriptor is negative");
  in.expect(handle.bytes > 0 && handle.bytes <= (std::uint64_t{1} << 47), "its size is not one of a region");
  return handle;
}

}  // namespace farside
