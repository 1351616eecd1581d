// space_shuttles.h — shuttles over a Space: what one READ brings into a buffer that the network knows.
#pragma once

#include "far/pager/shuttle.h"

namespace farside::far {

class SpaceShuttles final : public ShuttleSource {
 public:
  explicit SpaceShuttles(std::unique_ptr<Space> space);

  [[nodiscard]] PageNumber pages() const override;
  [[nodiscard]] std::unique_ptr<Shuttle> open() override;

 private:
  std::unique_ptr<Space> space_;
};

}  // namespace farside::far
