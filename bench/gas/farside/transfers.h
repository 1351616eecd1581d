// transfers.h — get and put of a whole page by a rank that is neither its home nor its owner: with and without what it
// remembers, and the bare operations of the fabric beside them.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "farside/comm/messages.h"
#include "farside/gas/pages.h"

#include "bench/gas/farside/seat.h"

namespace farside::bench {

class Transfers {
 public:
  /// Collective.
  explicit Transfers(GasSeat& seat);
  void offer(Work& work);

 private:
  /// A page of one size.
  struct Sized {
    Sized(GasSeat& seat, std::uint64_t bytes);

    gas::Pages pages;
    gas::PageAccess access;
    gas::PageAccess stranger;      ///< gets nothing, and so remembers nothing
    gas::PageAccess for_handlers;  ///< of the service thread
    RemoteSpan place;              ///< where the page is, since no rank moves it
  };
  static constexpr gas::PageId kPage = kHome;
  /// Begins where a frame does, as what is copied does: a few bytes further, a copy of 4 KiB takes three times as long,
  /// since the processor takes its loads for those of what it has just stored.
  struct alignas(4096) Buffer {
    std::array<std::byte, kLargestBytes> bytes{};
  };

  void get(std::uint64_t bytes, std::uint64_t rounds);
  void get_by_message(std::uint64_t bytes, std::uint64_t rounds);
  void get_by_lookup(std::uint64_t bytes, std::uint64_t rounds);
  void put(std::uint64_t bytes, std::uint64_t rounds);
  void read(std::uint64_t bytes, std::uint64_t rounds);
  void write(std::uint64_t bytes, std::uint64_t rounds);

  [[nodiscard]] gas::PagePlace locate(gas::PageAccess& access) const;
  [[nodiscard]] gas::PagePart whole(std::uint64_t bytes) { return {kPage, 0, LocalSpan(buffer_->bytes.data(), bytes)}; }
  void answer(comm::Messages::Call& call);

  GasSeat& seat_;
  std::map<std::uint64_t, Sized> sized_;
  std::unique_ptr<Buffer> buffer_ = std::make_unique<Buffer>();

  std::unique_ptr<team::SymmetricRegion> answers_;  ///< a word: the number of the question, and the page's offset
  std::unique_ptr<Channel> handlers_channel_;
  std::uint64_t questions_ = 0;
  comm::Messages messages_;
};

}  // namespace farside::bench
