#include "team/coordinator_finder.h"

#include <utility>

#include "farside/base/error.h"

#include "authority/etcd_store.h"
#include "authority/office.h"
#include "net/socket.h"

namespace farside::team {

CoordinatorFinder::CoordinatorFinder(std::string text) : text_(std::move(text)) {
  if (!authority::EtcdAddress::names_etcd(text_)) return;
  authority::EtcdAddress address = authority::EtcdAddress::parse(text_);
  pool_ = address.pool;
  records_ = std::make_unique<authority::EtcdStore>(std::move(address));
}

bool CoordinatorFinder::is_on_one_host() const { return is_fixed() && net::is_host_local(text_); }

std::string CoordinatorFinder::find() {
  if (is_fixed()) return text_;
  const MutexLock lock(mutex_);
  const auto view = authority::Office(*records_, authority::OfficeKeys(pool_)).look();
  if (!view) throw Error({"ask where the team meets", text_, records_->why(), "are the servers of etcd there?"});
  if (!view->holder || view->holder->address.empty()) {
    throw Error({"find the coordinator named in", text_, "no process of farside up coordinates this pool at present",
                 "start one"});
  }
  return view->holder->address;
}

}  // namespace farside::team
