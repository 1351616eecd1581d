// copies.h — transfers between this process and others, several under way at once.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "farside/comm/comm.h"

namespace farside::comm {

inline constexpr std::uint64_t kPieceBytes = 8U << 20U;

/// For the next piece.
using NextDeadline = std::function<Deadline()>;

[[nodiscard]] inline team::Rank peer_of(const Part& part) { return part.remote.region->peer(); }

struct Copy {
  enum class Kind : std::uint8_t { put, get };

  Kind kind;
  std::vector<Part> parts;  ///< may be of several ranks
  Notice notice;            ///< follows the last of them

  [[nodiscard]] std::uint64_t bytes() const;
};

struct [[nodiscard]] Made {
  std::vector<Status> status;   ///< how each copy ended, by its place
  std::set<team::Rank> silent;  ///< the ranks that did not answer in time
};

/// A mapped region stays mapped when its owner is lost: then operations on it fail at once.
[[nodiscard]] inline bool is_mapped(const RemoteRegion& region) { return region.mapped() != nullptr; }
/// The word that it sets is, if it sets one.
[[nodiscard]] inline bool is_mapped(const Notice& notice) {
  if (const auto* const set = std::get_if<SetWord>(&notice)) return is_mapped(*set->word.region);
  if (const auto* const add = std::get_if<AddToWord>(&notice)) return is_mapped(*add->word.region);
  return true;
}

/// All of them at once, with one deadline, and after each rank that did not answer by then with another one. One that
/// fails takes those to the same rank with it.
Made make_copies(Channel& channel, std::span<const Copy> copies, const NextDeadline& next);

/// One of any size, up to kPieceBytes at once.
Made make_in_pieces(Channel& channel, const Copy& copy, const NextDeadline& next);

/// The rank that a notice is for.
[[nodiscard]] std::optional<team::Rank> target_of(const Notice& notice);
/// When it is done, the receiver has been told.
[[nodiscard]] Status give(Channel& channel, const Notice& notice, Deadline deadline);

}  // namespace farside::comm
