// A peer writes into the memory of global pages (src/gas): anything, anywhere, and entries and holds of any content.
// All that a rank does with the pages afterwards ends in time.
//
// Input: each thing that happens: its kind (1 byte), 0 mod 8: bytes are written (team_of_two.h); 1: the entry of a
// page: its number (1), its place (8), its sharers (8); 2: a hold of rank 1: its number (1), its word (8), and how many
// are open (1); 3 to 7: rank 0 gets, puts, adds to, compares and swaps, or owns a page, whose number follows (1).
#include "farside/gas/page.h"

#include "gas/protocol/mover.h"
#include "tests/fuzz/team_of_two.h"

namespace farside::fuzz {
namespace {

constexpr std::uint64_t kPages = 4;
constexpr std::uint64_t kPageBytes = 64;
constexpr gas::PageShape kShape{.pages = kPages, .page_bytes = kPageBytes, .slots = 3, .cached_places = 4};
constexpr Duration kLease = std::chrono::microseconds(100);

std::uint64_t word(Input& input) {
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word = word << 8U | input.byte();
  return word;
}

class Pages {
 public:
  Pages() {
    for (team::Rank rank = 0; rank < TeamOfTwo::kSize; ++rank) {
      const gas::PageSettings settings{
          .shape = kShape,
          .first_owner = [](gas::PageId page) { return static_cast<team::Rank>(page % 2); },
          .lease = kLease};
      memories_.at(rank) = std::make_unique<gas::PageMemory>(team_[rank], "pages", settings);
    }
    accessor_ = std::make_unique<gas::Accessor>(*memories_[0]);
    mover_ = std::make_unique<gas::Mover>(*accessor_);
  }
  ~Pages() { accessor_->part(soon()); }

  void happen(Input& input) {
    const std::uint64_t kind = input.byte() % 8;
    if (kind == 0) return void(team_.write(input));
    if (kind == 1) return write_entry(input);
    if (kind == 2) return write_hold(input);
    use(kind, input.byte() % kPages);
  }

 private:
  [[nodiscard]] Deadline soon() const { return team_[0].fabric().in(std::chrono::milliseconds(1)); }

  void store(team::Rank rank, std::uint64_t at, std::uint64_t value) {
    team_[rank].memory().word<ControlWord>(at).store(value);
  }
  void write_entry(Input& input) {
    const gas::PageLayout& layout = memories_[0]->layout();
    const gas::PageId page = input.byte() % kPages;
    store(layout.home_of(page), layout.place(page), word(input));
    store(layout.home_of(page), layout.sharers(page, 0), word(input));
  }
  void write_hold(Input& input) {
    const gas::PageLayout& layout = memories_[0]->layout();
    store(1, layout.hold(input.byte() % gas::PageLayout::kHolds), word(input));
    store(1, gas::PageLayout::kOpened, input.byte());
  }

  void use(std::uint64_t how, gas::PageId page) {
    std::array<std::byte, kPageBytes> bytes{};
    const gas::PagePart whole{page, 0, LocalSpan(bytes)};
    switch (how) {
      case 3: (void)accessor_->get(whole, soon()); return;
      case 4: (void)accessor_->put(whole, soon()); return;
      case 5: (void)accessor_->fetch_add(page, 8, 1, soon()); return;
      case 6: (void)accessor_->compare_swap(page, 8, 0, 1, soon()); return;
      default: (void)mover_->own({&page, 1}, soon());
    }
  }

  const TeamOfTwo team_;
  std::array<std::unique_ptr<gas::PageMemory>, TeamOfTwo::kSize> memories_;
  std::unique_ptr<gas::Accessor> accessor_;
  std::unique_ptr<gas::Mover> mover_;
};

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  farside::fuzz::Input input(std::as_bytes(std::span(data, size)));
  for (farside::fuzz::Pages pages; !input.is_over();) pages.happen(input);
  return 0;
}
