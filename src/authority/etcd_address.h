// etcd_address.h — the text by which a pool's users name an authority in etcd:
//
//   etcd://HOST:PORT[,HOST:PORT...]/POOL[?ca=FILE&cert=FILE&key=FILE&user=NAME&password-file=FILE]
//
// etcds:// is the same over TLS. It has no secret in it: processes hand it on in their environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace farside::authority {

struct EtcdAddress {
  std::vector<std::string> members;  ///< "host:port" of each that may be asked
  std::string pool;                  ///< several may share the servers
  bool is_tls = false;
  std::string ca;             ///< the file of the certificate that signed those of the servers; empty: the system's
  std::string certificate;    ///< the file of this process's own; empty: it has none
  std::string key;            ///< the file of its key
  std::string user;           ///< empty: the servers ask for none
  std::string password_file;  ///< its first line is the password

  /// Throws UsageError when the text is none.
  [[nodiscard]] static EtcdAddress parse(const std::string& text);
  [[nodiscard]] static bool names_etcd(std::string_view text) {
    return text.starts_with("etcd://") || text.starts_with("etcds://");
  }
  /// The same with full paths of files: another process may have another working directory.
  [[nodiscard]] std::string text() const;
};

}  // namespace farside::authority
