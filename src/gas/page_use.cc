#include "farside/gas/page_use.h"

#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

namespace farside::gas {

Result<std::vector<PageUse>, comm::Status> gather_use(PageAccess& access, comm::Collectives& collectives,
                                                      std::uint64_t most, Deadline deadline) {
  most = std::min(most, access.pages().pages());  // no rank has used more
  std::vector<PageTraffic> used = access.traffic();
  std::ranges::sort(used, std::ranges::greater(), &PageTraffic::bytes);
  if (used.size() > most) used.resize(most);

  team::Team& team = access.pages().team();
  std::vector<PageId> pages;
  pages.reserve(used.size());
  for (const PageTraffic& one : used) pages.push_back(one.page);
  const auto places = access.locate(pages, deadline);
  if (!places.done()) return {places.status, {}};

  // All bring as many; those without operations are none.
  std::vector<PageUse> mine(most);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const PageTraffic& one = used[i];
    mine[i] = {one.page,  team.rank(),           places.value[i].owner, one.operations,
               one.bytes, one.remote_operations, one.remote_bytes};
  }
  std::vector<PageUse> all(most * team.size());
  const comm::Status gathered = collectives.all_gather(access.channel(), std::span(mine), std::span(all), deadline);
  if (!gathered.done()) return {gathered, {}};
  std::erase_if(all, [](const PageUse& use) { return use.operations == 0; });
  std::ranges::stable_sort(all, std::ranges::greater(), &PageUse::bytes);
  return {{}, std::move(all)};
}

std::vector<PageId> pages_to_own(const std::vector<PageUse>& uses, team::Rank rank) {
  std::map<PageId, PageUse> most_used;  // by page; of equal users, the lowest rank
  for (const PageUse& use : uses) {
    PageUse& most = most_used.try_emplace(use.page, use).first->second;
    if (use.bytes > most.bytes || (use.bytes == most.bytes && use.rank < most.rank)) most = use;
  }
  std::vector<PageId> pages;
  for (const auto& [page, use] : most_used) {
    if (use.rank == rank && use.owner != rank) pages.push_back(page);
  }
  return pages;
}

std::string report_of(const std::vector<PageUse>& uses, std::uint64_t page_bytes) {
  std::vector<PageUse> remote = uses;
  std::erase_if(remote, [](const PageUse& use) { return use.remote_operations == 0; });
  std::ranges::stable_sort(remote, std::ranges::greater(), &PageUse::remote_bytes);
  std::string text = fmt::format("{:>12} {:>6} {:>6} {:>12} {:>14} {:>17}\n", "page", "used by", "owner", "operations",
                                 "remote bytes", "owning saves");
  for (const PageUse& use : remote) {
    text += fmt::format("{:>12} {:>6} {:>6} {:>12} {:>14} {:>17}\n", use.page, use.rank, use.owner,
                        use.remote_operations, use.remote_bytes, use.saved_bytes(page_bytes));
  }
  return text;
}

}  // namespace farside::gas
