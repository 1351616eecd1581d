// Spaces with a copy on disk: whichever nodes are lost, what is read is what was written; and what the file does when
// the disk does not.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "far/spill/spilled_space.h"
#include "tests/far/lent_nodes.h"
#include "tests/far/page_worker.h"
#include "tests/support/shared.h"

namespace farside::far {
namespace {

using namespace std::chrono_literals;

class ADirectory {
 public:
  ADirectory() {
    std::string made = std::filesystem::temp_directory_path() / "farside_spill_XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) throw errno_error("make a directory", made);
    path_ = made;
  }
  ~ADirectory() { std::filesystem::remove_all(path_); }
  ADirectory(const ADirectory&) = delete;
  ADirectory& operator=(const ADirectory&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

auto soon() { return SpillFile::Clock::now() + 60s; }

// ---- The file

TEST(ASpillFile, HasWhatWasPutLastHoweverSmallItsQueue) {
  const ADirectory directory;
  constexpr std::uint64_t kBytes = 1U << 20U;
  SpillFile file(directory / "spill", kBytes, 10'000);
  EXPECT_TRUE(directory.is_empty()) << "it has no name";
  std::vector<std::byte> model(kBytes);
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t offset = random() % kBytes;
    const std::uint64_t bytes = std::min(kBytes - offset, 1 + random() % 30'000);
    std::vector<std::byte> piece(bytes, static_cast<std::byte>(random()));
    const auto begin = model.begin() + static_cast<std::ptrdiff_t>(offset);
    if (random() % 4 == 0) {
      std::fill_n(begin, bytes, std::byte{0});
      ASSERT_EQ(file.clear(offset, bytes, soon()), SpillFile::Put::queued);
    } else {
      std::ranges::copy(piece, begin);
      ASSERT_EQ(file.put(offset, piece, soon()), SpillFile::Put::queued);
    }
    const std::uint64_t at = random() % kBytes;
    std::vector<std::byte> found(std::min(kBytes - at, random() % 30'000));
    ASSERT_TRUE(file.take(at, found, soon()));
    ASSERT_TRUE(std::ranges::equal(found, std::span(model).subspan(at, found.size())));
  }
}

std::string refusal(const std::filesystem::path& path, std::uint64_t bytes) {
  try {
    const SpillFile file(path, bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(ASpillFile, SaysWhyItCannotBeMade) {
  const ADirectory directory;
  std::ofstream(directory / "precious") << "words";
  EXPECT_NE(refusal(directory / "precious", 4096).find("it is there already"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(directory / "precious"), 5U);
  EXPECT_NE(refusal(directory / "missing/spill", 4096).find("No such file or directory"), std::string::npos);
  const std::string too_large = refusal(directory / "spill", 1ULL << 62U);
  EXPECT_NE(too_large.find("the disk has no room for 4 EiB"), std::string::npos) << too_large;
  EXPECT_FALSE(std::filesystem::exists(directory / "spill"));
}

// A disk that refuses writes makes put fail, and nothing is lost when it takes them again.
TEST(ASpillFile, SaysWhenItCannotWriteAndGoesOnWhenItCan) {
  const ADirectory directory;
  SpillFile file(directory / "spill", 1U << 20U);
  const std::vector<std::byte> ones(4096, std::byte{1});
  ASSERT_EQ(file.put(0, ones, soon()), SpillFile::Put::queued);
  std::vector<std::byte> found(4096);
  ASSERT_TRUE(file.take(0, found, soon()));

  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const std::vector<std::byte> twos(4096, std::byte{2});
  EXPECT_EQ(file.put(0, twos, soon()), SpillFile::Put::queued);
  EXPECT_TRUE(test::eventually([&] { return file.put(8192, twos, soon()) == SpillFile::Put::failed; }));
  EXPECT_FALSE(file.take(0, found, SpillFile::Clock::now() + 10ms)) << "what was put is not there yet";

  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(file.take(0, found, soon()));
  EXPECT_EQ(found, twos);
  EXPECT_TRUE(test::eventually([&] { return file.put(8192, ones, soon()) == SpillFile::Put::queued; }));
}

// ---- A space

constexpr PeerId kSelf = 100;
constexpr std::uint64_t kSlabBytes = 16U << 10U;

class ASpilledSpace : public testing::Test {
 protected:
  static constexpr PeerId kNodes = 3;

  /// With `slabs` on nodes of which each lends `lent`.
  std::unique_ptr<SpilledSpace> open(std::uint64_t slabs, SlabNumber lent, PeerId nodes) {
    auto pool = std::make_unique<StripedSpace>(*fabric_, kSelf, SpaceShape{slabs * kSlabBytes, kSlabBytes});
    pool_ = pool.get();
    for (PeerId node = 0; node < nodes; ++node) add(node, lent);
    return std::make_unique<SpilledSpace>(std::move(pool), kSlabBytes, directory_ / "spill", Unresponsive{},
                                          64U << 10U);
  }
  void add(PeerId number, SlabNumber lent) {
    const LenderSettings settings{.slab_bytes = kSlabBytes, .slabs = lent, .stock = 2};
    nodes_.push_back(std::make_unique<LentNode>(*fabric_, number, settings));
    pool_->slabs().add(nodes_.back()->join());
  }
  [[nodiscard]] SlabNumber taken(std::size_t node) {
    return static_cast<SlabNumber>(nodes_[node]->join()->use(*channel_, fabric_->in(60s)).value().taken);
  }

  const ADirectory directory_;
  std::unique_ptr<Fabric> fabric_ = make_lonely_fabric(kNodes);
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  StripedSpace* pool_ = nullptr;
  std::vector<std::unique_ptr<LentNode>> nodes_;
};

// One after the other, until there is only the file; and then one comes.
TEST_F(ASpilledSpace, LosesNothingWhicheverNodesAreLost) {
  const auto space = open(12, 16, 2);
  std::atomic<bool> working = true;
  std::vector<std::jthread> threads;
  for (std::uint64_t number = 0; number < 3; ++number) {
    threads.emplace_back([&space, &working, number] {
      Worker worker(*space, number, 3);
      do worker.work(100);
      while (working);
      worker.read_all();
    });
  }
  for (PeerId node = 0; node < 2; ++node) {
    fabric_->sleep(30ms);
    fabric_->mark_lost(node);
  }
  fabric_->sleep(30ms);
  add(2, 16);
  EXPECT_TRUE(test::eventually([&] { return taken(2) != 0; })) << "what is in the file alone goes to the nodes again";
  working = false;
}

TEST_F(ASpilledSpace, HasWhatNoNodeHasRoomFor) {
  const auto space = open(12, 2, 2);
  Worker worker(*space, 0, 1);
  worker.work(500);
  worker.read_all();
  EXPECT_GT(taken(0) + taken(1), 0U);
}

TEST_F(ASpilledSpace, RefusesWhatLiesBeyondItsEnd) {
  const auto space = open(1, 1, 1);
  std::uint64_t value = 0;
  for (const std::uint64_t offset : {kSlabBytes - 4, 1000 * kSlabBytes}) {
    const Transfer beyond{offset, LocalSpan(value)};
    EXPECT_ANY_THROW((void)space->open_io()->read({&beyond, 1}, fabric_->in(60s)));
    EXPECT_ANY_THROW((void)space->open_io()->write({&beyond, 1}, fabric_->in(60s)));
  }
}

// ---- Nodes that do not answer

/// A space in this process. What touches a slab whose node hangs times out at once. As with nodes, an I/O context that
/// gave up a write begins no other while its node hangs.
class HangingSpace final : public Space {
 public:
  HangingSpace(Fabric& fabric, std::uint64_t slabs) : fabric_(fabric), bytes_(slabs * kSlabBytes) {}

  std::set<std::uint64_t> hanging;  ///< slabs

  [[nodiscard]] std::uint64_t bytes() const override { return bytes_.size(); }
  [[nodiscard]] Fabric& fabric() override { return fabric_; }
  [[nodiscard]] std::unique_ptr<IoContext> open_io() override { return std::make_unique<HangingIo>(*this); }
  [[nodiscard]] std::byte first_of(std::uint64_t slab) const { return bytes_[slab * kSlabBytes]; }

 private:
  class HangingIo final : public IoContext {
   public:
    explicit HangingIo(HangingSpace& space) : space_(space) {}

    Status read(std::span<const Transfer> list, Deadline /*deadline*/) override {
      if (touches_hanging(list)) return Status::timed_out;
      for (const Transfer& each : list) {
        std::memcpy(each.local.adapter_data(), &space_.bytes_[each.offset], each.local.bytes());
      }
      return Status::done;
    }
    Status write(std::span<const Transfer> list, Deadline /*deadline*/) override {
      gave_up_ = (gave_up_ && !space_.hanging.empty()) || touches_hanging(list);
      if (gave_up_) return Status::timed_out;
      for (const Transfer& each : list) {
        std::memcpy(&space_.bytes_[each.offset], each.local.adapter_data(), each.local.bytes());
      }
      return Status::done;
    }
    Status discard(std::uint64_t offset, std::uint64_t bytes, Deadline /*deadline*/) override {
      if (space_.hanging.contains(offset / kSlabBytes)) return Status::timed_out;
      std::fill_n(space_.bytes_.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
      return Status::done;
    }

   private:
    [[nodiscard]] bool touches_hanging(std::span<const Transfer> list) const {
      return std::ranges::any_of(
          list, [this](const Transfer& each) { return space_.hanging.contains(each.offset / kSlabBytes); });
    }

    HangingSpace& space_;
    bool gave_up_ = false;
  };

  Fabric& fabric_;
  std::vector<std::byte> bytes_;
};

/// Four slabs, of which one hangs from when the test says so. `is_known` by then, or found out after a time-out.
class ASpillBesideAHang : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kSlabs = 4;
  static constexpr std::uint64_t kHanging = 1;

  ASpillBesideAHang() {
    auto pool = std::make_unique<HangingSpace>(*fabric_, kSlabs);
    pool_ = pool.get();
    const auto hangs = [this](std::uint64_t slab) { return pool_->hanging.contains(slab); };
    const Unresponsive unresponsive = GetParam() ? Unresponsive{.has = hangs} : Unresponsive{.may_have_room = hangs};
    space_ = std::make_unique<SpilledSpace>(std::move(pool), kSlabBytes, directory_ / "spill", unresponsive);
    io_ = space_->open_io();
  }

  void write(std::byte value) {
    for (std::uint64_t slab = 0; slab < kSlabs; ++slab) {
      std::vector<std::byte> bytes(kSlabBytes, value);
      const Transfer transfer{slab * kSlabBytes, LocalSpan(bytes.data(), bytes.size())};
      EXPECT_EQ(io_->write({&transfer, 1}, fabric_->in(60s)), Status::done) << "slab " << slab;
    }
  }
  // One list for all.
  void expect(std::byte value) {
    std::vector<std::byte> bytes(kSlabs * kSlabBytes);
    const Transfer transfer{0, LocalSpan(bytes.data(), bytes.size())};
    EXPECT_EQ(io_->read({&transfer, 1}, fabric_->in(60s)), Status::done);
    EXPECT_TRUE(std::ranges::all_of(bytes, [value](std::byte each) { return each == value; }));
  }

  const ADirectory directory_;
  std::unique_ptr<Fabric> fabric_ = make_lonely_fabric(1);
  HangingSpace* pool_ = nullptr;
  std::unique_ptr<SpilledSpace> space_;
  std::unique_ptr<IoContext> io_;
};
INSTANTIATE_TEST_SUITE_P(IsKnown, ASpillBesideAHang, testing::Bool());

// Reads and writes go to the file, discards too, and the node has it all when it answers again.
TEST_P(ASpillBesideAHang, DoesNotWaitForTheNode) {
  write(std::byte{1});
  pool_->hanging = {kHanging};
  expect(std::byte{1});
  write(std::byte{2});
  expect(std::byte{2});
  pool_->hanging = {};
  expect(std::byte{2});
  EXPECT_EQ(pool_->first_of(kHanging), std::byte{2}) << "it was brought back";
}

TEST_P(ASpillBesideAHang, DiscardsWithoutTheNode) {
  write(std::byte{1});
  pool_->hanging = {kHanging};
  expect(std::byte{1});
  EXPECT_EQ(io_->discard(0, kSlabs * kSlabBytes, fabric_->in(60s)), Status::done);
  expect(std::byte{0});
  pool_->hanging = {};
  expect(std::byte{0});
}

}  // namespace
}  // namespace farside::far
