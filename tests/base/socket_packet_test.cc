#include "base/socket_packet.h"

#include <array>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/fd.h"

namespace farside {
namespace {

class SocketPackets : public testing::Test {
 protected:
  SocketPackets() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    from_ = Fd(ends[0]);
    to_ = Fd(ends[1]);
  }

  void send(std::span<const std::byte> data, std::span<const int> descriptors) {
    SocketPacket<4> packet(data, descriptors);
    ASSERT_EQ(::sendmsg(from_.get(), packet.message(), MSG_NOSIGNAL), static_cast<ssize_t>(data.size()));
  }
  template <class Packet>
  std::vector<Fd> receive(Packet& packet) {
    EXPECT_GE(::recvmsg(to_.get(), packet.message(), MSG_CMSG_CLOEXEC), 0);
    std::vector<Fd> came;
    packet.take_descriptors([&came](int descriptor) { came.emplace_back(descriptor); });
    return came;
  }

  Fd from_;
  Fd to_;
  std::array<std::byte, 8> data_{std::byte{1}, std::byte{2}};
  std::array<std::byte, 8> received_{};
};

TEST_F(SocketPackets, CarryDataAndDescriptorsInTheirOrder) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Fd reads(pipe[0]);
  Fd writes(pipe[1]);
  send(data_, pipe);
  writes.reset();
  SocketPacket<2> packet(received_);
  const std::vector<Fd> came = receive(packet);
  EXPECT_EQ(received_, data_);
  EXPECT_TRUE(packet.has_all_data() && packet.has_all_descriptors());
  ASSERT_EQ(came.size(), 2U);
  char byte = 'a';
  EXPECT_EQ(::write(came[1].get(), &byte, 1), 1);
  EXPECT_EQ(::read(came[0].get(), &byte, 1), 1);
}

TEST_F(SocketPackets, SayThatTheyWereLongerThanTheirRoom) {
  send(data_, {});
  SocketPacket<1> packet(std::span<std::byte>(received_).first(4));
  EXPECT_TRUE(receive(packet).empty());
  EXPECT_FALSE(packet.has_all_data());
  EXPECT_TRUE(packet.has_all_descriptors());
}

// Also one more than an odd number, for which alignment leaves room: the receiver has to close it.
TEST_F(SocketPackets, DeliverNoMoreDescriptorsThanTheyHaveRoomFor) {
  const std::array<int, 3> sent{from_.get(), from_.get(), from_.get()};
  send(data_, sent);
  SocketPacket<1> packet(received_);
  EXPECT_EQ(receive(packet).size(), SocketPacket<1>::kRoom);
  EXPECT_FALSE(packet.has_all_descriptors());
}

// A program that may have no more open is no reason to take the sender for dead.
TEST_F(SocketPackets, SayThatTheProcessMayHaveNoMoreDescriptors) {
  const std::array<int, 2> sent{from_.get(), from_.get()};
  send(data_, sent);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd lowest(::dup(from_.get()));
  const rlimit one_more{static_cast<rlim_t>(lowest.get()) + 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  SocketPacket<2> packet(received_);
  const std::size_t came = receive(packet).size();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(came, 1U);
  EXPECT_TRUE(packet.has_all_data());
  EXPECT_FALSE(packet.has_all_descriptors());
}

TEST_F(SocketPackets, NameTheirSenderBesideADescriptor) {
  const int on = 1;
  ASSERT_EQ(::setsockopt(to_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
  const std::array<int, 1> sent{from_.get()};
  send(data_, sent);
  SocketPacket<1, PacketSender::known> packet(received_);
  EXPECT_EQ(receive(packet).size(), 1U);
  EXPECT_EQ(packet.sender(), ::getpid());
  EXPECT_TRUE(packet.has_all_descriptors());
}

}  // namespace
}  // namespace farside
