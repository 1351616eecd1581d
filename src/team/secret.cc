#include "team/secret.h"

#include <string>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

namespace farside {

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

Digest hmac_sha256(const Digest& key, std::string_view message) {
  Digest digest;
  unsigned int length = 0;
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(),
             &length) == nullptr ||
      length != digest.size()) {
    throw Error({"compute", "HMAC-SHA-256", "libcrypto refused", "check the machine's OpenSSL configuration"});
  }
  return digest;
}

bool equal_in_constant_time(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Nonce random_nonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw errno_error("draw random bytes from", "the kernel");
  }
  return nonce;
}

}  // namespace farside
