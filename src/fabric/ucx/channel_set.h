// channel_set.h — the channels of an engine, so that those who wait on a peer learn that it was lost.
//
// Thread safety: every call, from any thread.
#pragma once

#include <mutex>
#include <set>

namespace farside {

class UcxChannel;

class UcxChannelSet {
 public:
  void add(UcxChannel& channel);
  void remove(UcxChannel& channel);
  void alarm();

 private:
  std::mutex mutex_;
  std::set<UcxChannel*> channels_;  // guarded by mutex_
};

}  // namespace farside
