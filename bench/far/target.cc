#include "bench/far/target.h"

#include <array>
#include <stdexcept>

#include <fcntl.h>
#include <libnbd.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/far/pool.h"
#include "farside/far/space.h"

namespace farside::bench {

namespace {

class PoolTarget final : public Target {
 public:
  explicit PoolTarget(std::uint64_t bytes) : space_(far::open_pool({.bytes = bytes})), io_(space_->open_io()) {}

  void read(std::span<std::byte> into, std::uint64_t offset) override {
    const far::Transfer transfer{offset, {into.data(), into.size()}};
    expect_done(io_->read({&transfer, 1}, deadline()));
  }
  void write(std::span<std::byte> from, std::uint64_t offset) override {
    const far::Transfer transfer{offset, {from.data(), from.size()}};
    expect_done(io_->write({&transfer, 1}, deadline()));
  }

 private:
  [[nodiscard]] Deadline deadline() const { return space_->fabric().in(std::chrono::minutes(1)); }
  static void expect_done(far::Status result) {
    if (result != far::Status::done) throw std::runtime_error("the pool: " + std::string(to_string(result)));
  }

  std::unique_ptr<far::Space> space_;
  std::unique_ptr<far::IoContext> io_;
};

class NbdTarget final : public Target {
 public:
  NbdTarget(std::string plugin, std::string parameter) : handle_(nbd_create()) {
    std::string program = "nbdkit";
    std::string end_with_us = "--exit-with-parent";
    std::array<char*, 5> command{program.data(), end_with_us.data(), plugin.data(), parameter.data(), nullptr};
    expect(handle_ != nullptr && nbd_connect_systemd_socket_activation(handle_.get(), command.data()) == 0);
  }

  void read(std::span<std::byte> into, std::uint64_t offset) override {
    expect(nbd_pread(handle_.get(), into.data(), into.size(), offset, 0) == 0);
  }
  void write(std::span<std::byte> from, std::uint64_t offset) override {
    expect(nbd_pwrite(handle_.get(), from.data(), from.size(), offset, 0) == 0);
  }

 private:
  struct Close {
    void operator()(nbd_handle* handle) const noexcept { nbd_close(handle); }
  };
  static void expect(bool done) {
    if (!done) throw std::runtime_error(nbd_get_error());
  }

  std::unique_ptr<nbd_handle, Close> handle_;
};

class FileTarget final : public Target {
 public:
  explicit FileTarget(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600)) {
    if (!file_) throw errno_error("open", path, "take a folder on a disk");
  }

  void read(std::span<std::byte> into, std::uint64_t offset) override {
    expect(::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(offset)), into.size());
  }
  void write(std::span<std::byte> from, std::uint64_t offset) override {
    expect(::pwrite(file_.get(), from.data(), from.size(), static_cast<off_t>(offset)), from.size());
  }

 private:
  static void expect(ssize_t done, std::size_t bytes) {
    if (done != static_cast<ssize_t>(bytes)) throw errno_error("read or write", "a file");
  }

  Fd file_;
};

}  // namespace

std::unique_ptr<Target> make_target(std::span<const std::string> words, std::uint64_t bytes) {
  if (words[0] == "pool") return std::make_unique<PoolTarget>(bytes);
  if (words[0] == "nbdkit") return std::make_unique<NbdTarget>(words[1], words[2]);
  return std::make_unique<FileTarget>(words[1]);
}

}  // namespace farside::bench
