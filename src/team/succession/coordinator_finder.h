// coordinator_finder.h — where the coordinator of a team is: at a fixed address, at one that a file has (an operator
// may have members follow another one), or where the authority says that the present one is (authority/office.h).
#pragma once

#include <memory>
#include <string>

#include "authority/record_store.h"
#include "base/mutex.h"

namespace farside::team {

class CoordinatorFinder {
 public:
  /// `text`: the path of a socket, host:port, file:PATH, or the address of an authority in etcd. Throws UsageError when
  /// it is none.
  explicit CoordinatorFinder(std::string text);

  /// Returns an address as net/socket.h has it. If the authority does not answer, which takes a second or two, that is
  /// the one that it named last. Throws Error when there is none at present. Thread safety: any thread.
  [[nodiscard]] std::string find();

  [[nodiscard]] bool is_fixed() const noexcept { return records_ == nullptr && file_.empty(); }
  [[nodiscard]] bool is_on_one_host() const;
  /// For messages.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  const std::string text_;
  std::string file_;  ///< empty: none
  std::string pool_;
  Mutex mutex_;
  std::string last_ GUARDED_BY(mutex_);
  std::unique_ptr<authority::RecordStore> records_;  ///< null: no authority is asked
};

}  // namespace farside::team
