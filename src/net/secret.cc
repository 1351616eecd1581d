#include "net/secret.h"

#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "base/hexadecimal.h"

namespace farside::net {

Secret Secret::create(const std::filesystem::path& file) {
  const Secret secret(random_nonce());
  secret.save(file);
  return secret;
}

void Secret::save(const std::filesystem::path& file) const {
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) throw errno_error("create the pool's secret", file);
  if (::write(fd.get(), bytes_.data(), bytes_.size()) != static_cast<ssize_t>(bytes_.size())) {
    throw errno_error("write the pool's secret", file);
  }
}

Secret Secret::load(const std::filesystem::path& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) throw errno_error("read the pool's secret", file, "is the pool running?");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw errno_error("read the pool's secret", file);
  if (status.st_uid != ::geteuid()) {
    throw Error({"use the pool's secret", file, "it belongs to another user", "name a file that the pool's user owns"});
  }
  if ((status.st_mode & 077) != 0) {
    throw Error({"use the pool's secret", file, "others than its owner may read or change it",
                 "chmod 600 it, and make a new secret if another user may have read it"});
  }
  Digest bytes;
  if (status.st_size != static_cast<off_t>(bytes.size()) ||
      ::read(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw Error({"use the pool's secret", file, "it is not 32 bytes long", "name the file that the pool created"});
  }
  return Secret(bytes);
}

Digest Secret::prove(std::string_view purpose, std::initializer_list<std::string_view> parts) const {
  std::string message(purpose);
  message.push_back('\0');
  for (const std::string_view part : parts) message.append(part);
  return hmac_sha256(bytes_, message);
}

std::string Secret::for_fabric() const {
  const Digest digest = prove("farside fabric", {});
  return {digest.begin(), digest.end()};
}

std::string Secret::mark() const {
  std::uint64_t mark = 0;
  std::memcpy(&mark, prove("farside mark", {}).data(), sizeof mark);
  return hexadecimal(mark);
}

}  // namespace farside::net
