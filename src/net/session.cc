#include "net/session.h"

#include "base/wire.h"

namespace farside::net {

namespace {

constexpr std::size_t kMacBytes = 16;

std::span<const std::uint8_t> unsigned_bytes(std::string_view bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

std::size_t body_bytes(std::string_view frame) { return Decoder(frame, "a frame").number<std::uint32_t>(); }

std::string Session::mac(Side sender, std::uint64_t number, std::string_view body) const {
  std::string message = Encoder().number(static_cast<std::uint8_t>(sender)).number(number).take();
  message.append(body);
  const Digest digest = hmac_sha256(key_, message);
  return {reinterpret_cast<const char*>(digest.data()), kMacBytes};
}

std::string Session::seal(FrameKind kind, std::string_view fields) {
  std::string body(1, static_cast<char>(kind));
  body.append(fields);
  return Encoder().number(static_cast<std::uint32_t>(body.size())).take() + mac(self_, sent_++, body) + body;
}

Session::Opened Session::open(std::string& bytes) {
  if (bytes.size() < kFrameHeader) return {Next::incomplete};
  const std::size_t length = body_bytes(bytes);
  if (length == 0 || length > body_limit_) return {Next::broken};
  if (bytes.size() < kFrameHeader + length) return {Next::incomplete};

  const std::string_view claimed = std::string_view(bytes).substr(4, kMacBytes);
  const std::string_view body = std::string_view(bytes).substr(kFrameHeader, length);
  const Side peer = self_ == Side::member ? Side::coordinator : Side::member;
  if (!equal_in_constant_time(unsigned_bytes(claimed), unsigned_bytes(mac(peer, received_++, body)))) {
    return {Next::broken};
  }
  Opened opened{Next::frame, {static_cast<FrameKind>(body.front()), std::string(body.substr(1))}};
  bytes.erase(0, kFrameHeader + length);
  return opened;
}

}  // namespace farside::net
