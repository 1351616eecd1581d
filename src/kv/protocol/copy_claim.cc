#include "kv/protocol/copy_claim.h"

namespace farside::kv {

namespace {

/// Whether a copy that claims `one` has all that was acknowledged, given what the other one claims.
bool outranks(const CopyClaim& one, const CopyClaim& other) {
  if (!one.is_primarys()) return false;
  switch (other.standing) {
    case CopyStanding::none: return one.standing == CopyStanding::alone;
    case CopyStanding::begun:
    case CopyStanding::former: return true;
    case CopyStanding::standby: return one.epoch >= other.epoch;
    case CopyStanding::primary:
    case CopyStanding::alone: return one.epoch > other.epoch;
  }
  return false;
}

}  // namespace

std::string to_string(const CopyClaim& claim) {
  const std::string epoch = " of epoch " + std::to_string(claim.epoch);
  switch (claim.standing) {
    case CopyStanding::none: return "none";
    case CopyStanding::begun: return "not whole";
    case CopyStanding::former: return "a former one" + epoch;
    case CopyStanding::standby: return "the standby's" + epoch;
    case CopyStanding::primary: return "the primary's" + epoch;
    case CopyStanding::alone: return "the only server's" + epoch;
  }
  return "unknown";
}

Successor successor_of(const CopyClaim& first, const CopyClaim& second, bool is_new) {
  if (first.store != 0 && second.store != 0 && first.store != second.store) return Successor::neither;
  const bool are_none = first.standing == CopyStanding::none && second.standing == CopyStanding::none;
  if (outranks(first, second) || (are_none && is_new)) return Successor::first_seat;
  return outranks(second, first) ? Successor::second_seat : Successor::neither;
}

}  // namespace farside::kv
