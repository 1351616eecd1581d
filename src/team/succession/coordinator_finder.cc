#include "team/succession/coordinator_finder.h"

#include <fstream>
#include <string_view>
#include <utility>

#include "farside/base/error.h"

#include "authority/etcd_store.h"
#include "authority/office.h"
#include "net/socket.h"

namespace farside::team {

namespace {

constexpr std::string_view kFile = "file:";

}  // namespace

CoordinatorFinder::CoordinatorFinder(std::string text) : text_(std::move(text)) {
  if (text_.starts_with(kFile)) file_ = text_.substr(kFile.size());
  if (!authority::EtcdAddress::names_etcd(text_)) return;
  authority::EtcdAddress address = authority::EtcdAddress::parse(text_);
  pool_ = address.pool;
  records_ = std::make_unique<authority::EtcdStore>(std::move(address));
}

bool CoordinatorFinder::is_on_one_host() const { return is_fixed() && net::is_host_local(text_); }

std::string CoordinatorFinder::find() {
  if (is_fixed()) return text_;
  if (!file_.empty()) {
    std::string address;
    std::ifstream file(file_);
    if (!std::getline(file, address)) {
      throw Error({"read where the team meets in", file_, "there is no such file, or it is empty",
                   "write the address there: farside authority follow HOST:PORT"});
    }
    return address;
  }
  const MutexLock lock(mutex_);
  const auto view = authority::Office(*records_, authority::OfficeKeys(pool_)).look();
  if (!view && !last_.empty()) return last_;
  if (!view) throw Error({"ask where the team meets", text_, records_->why(), "are the servers of etcd there?"});
  if (view->is_vacant()) {
    throw Error({"find the coordinator named in", text_, "no process of farside up coordinates this pool at present",
                 "start one"});
  }
  last_ = view->holder->address;
  return last_;
}

}  // namespace farside::team
