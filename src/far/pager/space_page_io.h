// space_page_io.h — page I/O objects over a Space: what one READ brings into a buffer that the network knows.
#pragma once

#include "far/pager/page_io.h"

namespace farside::far {

class SpacePageIoSource final : public PageIoSource {
 public:
  explicit SpacePageIoSource(std::unique_ptr<Space> space);

  [[nodiscard]] PageNumber pages() const override;
  [[nodiscard]] std::unique_ptr<PageIo> open() override;

 private:
  std::unique_ptr<Space> space_;
};

}  // namespace farside::far
