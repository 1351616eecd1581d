// rules.h — what a fork's bytes stand on (docs/protocols/far_daemon.md). Tests break one rule at a time.
//
// Stands alone: daemon, program and slot map each keep some of them.
#pragma once

#include "base/rule.h"

namespace farside::far {

struct DaemonRules {
  Rule spares_shared_slots = true;  ///< what a relative may still fetch is not written over
  Rule stays_quiet = true;          ///< nothing leaves between the copy of the table and the fork
};

}  // namespace farside::far
