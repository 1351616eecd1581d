#include "fabric/ucx/channel_set.h"

#include "fabric/ucx/channel.h"

namespace farside {

void UcxChannelSet::add(UcxChannel& channel) {
  const std::scoped_lock lock(mutex_);
  channels_.insert(&channel);
}

void UcxChannelSet::remove(UcxChannel& channel) {
  const std::scoped_lock lock(mutex_);
  channels_.erase(&channel);
}

void UcxChannelSet::alarm() {
  const std::scoped_lock lock(mutex_);
  for (UcxChannel* channel : channels_) channel->alarm();
}

}  // namespace farside
