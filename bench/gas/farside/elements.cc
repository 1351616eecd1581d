#include "bench/gas/farside/elements.h"

namespace farside::bench {

Elements::Elements(GasSeat& seat)
    : seat_(seat),
      array_(seat.comm, kElements,
             {.page_bytes = kElementsOfPage * sizeof(std::uint64_t), .distribution = gas::blocked()}),
      random_(seat.rank()) {
  // From now on every rank knows where all pages are.
  for (std::uint64_t first = 0; first < kElements; first += kElementsOfRun) {
    check(array_.get(first, values_), "the first get");
  }
  seat.meet();
}

void Elements::offer(Work& work) {
  const auto offer_one = [&](const char* name, auto make) {
    work.together_in_part(name, each_of_amount(make, [this] { seat_.meet(); }));
  };
  offer_one("update", [this] { check(array_.fetch_add(random_.below(kElements), 1).status, "fetch_add"); });
  offer_one("get-element", [this] { check(array_.get(random_.below(kElements), std::span(values_).first(1)), "get"); });
  offer_one("gather", [this] { gather(); });
  offer_one("get-run",
            [this] { check(array_.get(random_.below(kElements / kElementsOfRun) * kElementsOfRun, values_), "get"); });
}

void Elements::gather() {
  for (std::uint64_t& index : indices_) index = random_.below(kElements);
  check(array_.gather(indices_, std::span(values_).first(kGathered)), "gather");
}

}  // namespace farside::bench
