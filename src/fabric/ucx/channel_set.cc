#include "fabric/ucx/channel_set.h"

#include "fabric/ucx/channel.h"

namespace farside {

void UcxChannelSet::add(UcxChannel& channel) {
  const MutexLock lock(mutex_);
  channels_.insert(&channel);
}

void UcxChannelSet::remove(UcxChannel& channel) {
  const MutexLock lock(mutex_);
  channels_.erase(&channel);
}

void UcxChannelSet::alarm() {
  const MutexLock lock(mutex_);
  for (UcxChannel* channel : channels_) channel->alarm();
}

}  // namespace farside
