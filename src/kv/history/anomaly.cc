#include "kv/history/anomaly.h"

namespace farside::kv {

std::string name_of(HistoryAnomaly::Kind kind) {
  switch (kind) {
    case HistoryAnomaly::Kind::thin_air_read: return "thin-air read";
    case HistoryAnomaly::Kind::aborted_read: return "aborted read";
    case HistoryAnomaly::Kind::intermediate_read: return "intermediate read";
    case HistoryAnomaly::Kind::future_read: return "future read";
    case HistoryAnomaly::Kind::own_write_missed: return "own write missed";
    case HistoryAnomaly::Kind::non_repeatable_read: return "non-repeatable read";
    case HistoryAnomaly::Kind::circular_flow: return "circular information flow";
    case HistoryAnomaly::Kind::fractured_read: return "fractured read";
    case HistoryAnomaly::Kind::non_monotonic_read: return "non-monotonic read";
  }
  return "";
}

}  // namespace farside::kv
