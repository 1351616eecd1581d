#include "authority/etcd_address.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "farside/base/error.h"

namespace farside::authority {

namespace {

constexpr std::string_view kPlain = "etcd://";
constexpr std::string_view kTls = "etcds://";

// In the order in which they are written.
constexpr std::array<std::pair<std::string_view, std::string EtcdAddress::*>, 5> kOptions{
    {{"ca", &EtcdAddress::ca},
     {"cert", &EtcdAddress::certificate},
     {"key", &EtcdAddress::key},
     {"user", &EtcdAddress::user},
     {"password-file", &EtcdAddress::password_file}}};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError({"read the address of the authority", text, why,
                    "write etcd://host:2379,host:2379/POOL, or etcds:// for TLS, with "
                    "?ca=FILE&cert=FILE&key=FILE&user=NAME&password-file=FILE as far as they are needed"});
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> pieces;
  for (;;) {
    const auto end = text.find(at);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// One path of keys, and one word of a message.
bool is_pool_name(std::string_view name) {
  constexpr std::size_t kMaxName = 64;
  return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

}  // namespace

EtcdAddress EtcdAddress::parse(const std::string& text) {
  EtcdAddress address;
  if (!names_etcd(text)) refuse(text, "it does not begin with etcd:// or etcds://");
  address.is_tls = text.starts_with(kTls);
  std::string_view rest = std::string_view(text).substr((address.is_tls ? kTls : kPlain).size());
  const auto question = rest.find('?');
  const std::string_view options = question == std::string_view::npos ? "" : rest.substr(question + 1);
  rest = rest.substr(0, question);
  const auto slash = std::min(rest.find('/'), rest.size());
  address.pool = rest.substr(std::min(slash + 1, rest.size()));
  rest = rest.substr(0, slash);
  if (!is_pool_name(address.pool))
    refuse(text, "the pool's name, after a slash, is not 1 to 64 letters, digits, '-', '_' or '.'");
  address.members = split(rest, ',');
  for (const std::string& member : address.members) {
    const auto colon = member.rfind(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 == member.size() || member.find('@') != std::string::npos)
      refuse(text, "'" + member + "' is not host:port");
  }
  if (question == std::string_view::npos) return address;
  for (const std::string& option : split(options, '&')) {
    const auto equals = option.find('=');
    const auto known =
        std::ranges::find(kOptions, option.substr(0, equals), [](const auto& each) { return each.first; });
    if (known == kOptions.end() || equals == std::string::npos) refuse(text, "'" + option + "' is no option of it");
    address.*(known->second) = option.substr(equals + 1);
  }
  if (address.certificate.empty() != address.key.empty()) refuse(text, "cert and key are given one without the other");
  if (address.user.empty() != address.password_file.empty())
    refuse(text, "user and password-file are given one without the other");
  if (!address.is_tls && !(address.ca + address.certificate).empty())
    refuse(text, "it names certificates, and is not one of TLS: write etcds://");
  return address;
}

std::string EtcdAddress::text() const {
  std::string text(is_tls ? kTls : kPlain);
  for (const std::string& member : members) text += (&member == &members.front() ? "" : ",") + member;
  text += "/" + pool;
  char separator = '?';
  for (const auto& [name, field] : kOptions) {
    if ((this->*field).empty()) continue;
    const bool is_file = name != "user";
    text.append(1, std::exchange(separator, '&')).append(name).append("=");
    text += is_file ? std::filesystem::absolute(this->*field).string() : this->*field;
  }
  return text;
}

}  // namespace farside::authority
