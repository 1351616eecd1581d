#include "node/pool/supervisor.h"

#include <csignal>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "authority/etcd_store.h"
#include "authority/file_store.h"
#include "fabric/host/process.h"
#include "node/pool/pool_options.h"
#include "team/environment.h"
#include "team/member_card.h"

namespace farside::node {

Supervisor::Supervisor(const PoolDirectory& directory, const PoolOptions& options)
    : directory_(directory),
      options_(options),
      former_(directory.read_record()),
      running_(former_ ? directory.running_nodes() : std::vector<RunningNode>{}),
      has_own_secret_(options.secret.empty()),
      secret_(has_own_secret_ || former_ ? directory.secret() : options.secret) {
  std::signal(SIGPIPE, SIG_IGN);  // also the nodes', which inherit it: a reader of their messages may end before them
  if (!has_own_secret_ && !former_)
    net::Secret::load(secret_).save(directory.secret());  // where this machine's clients of kv look for it
  for (const RunningNode& node : running_) {
    auto taken = take_mount_watch(node.process, node.pidfd);
    if (!taken) continue;
    mount_watch_ = std::move(*taken);
    break;
  }
  if (!mount_watch_.instance) mount_watch_ = share_mount_watch();
  const ProcessId self = this_process();
  record_ = {.supervisor = self.pid,
             .supervisor_started = self.start_ticks,
             .options = fixed_options(directory, options),
             .meeting = options.authority.empty() ? options.join : options.authority,
             .nodes = {},
             .cache_bytes = options.cache.cache_bytes,
             .block_bytes = options.cache.block_bytes,
             .groups = options.cache.groups,
             .kv_bytes = options.kv_bytes,
             .kv_copies = options.kv_copies,
             .far_bytes = options.far_bytes};
}

int Supervisor::run() {
  if (!options_.authority.empty()) {
    stand_for_office();
  } else if (options_.join.empty()) {
    coordinate();
  }
  for (const team::Rank rank : own_ranks()) {
    if (!runs(rank)) report_dead(rank);
  }
  // An operator may have said another one since.
  if (is_on_several_machines() && !(former_ && former_->meeting == record_.meeting))
    directory_.write_meeting(record_.meeting);
  if (!options_.join.empty())
    log_copy_.emplace(directory_.decisions_copy(), way_to_coordinator(), net::Secret::load(secret_));
  if (!running_.empty())
    log::warn("took over " + std::to_string(running_.size()) + " nodes whose process of farside up had ended");
  std::vector<team::AdoptedProcess> adopted = adopt();
  team::Launcher launcher(plan(), std::move(adopted));
  write_first_record(launcher);
  const team::JobEnd end = launcher.wait();
  // If the nodes of this machine failed, those of others go on, and it can be started again.
  if (end.was_asked) end_team();
  // With failures the record stays, which start_pool looks at. There are files: the record is one.
  if (end.failures.empty()) (void)directory_.clean();
  return end.code;
}

// Listens where the nodes look for the coordinator, also when the kernel had chosen the port.
void Supervisor::coordinate() {
  const bool is_on_one_machine = options_.listen.empty();
  const std::string address = former_             ? former_->meeting
                              : is_on_one_machine ? directory_.coordinator().string()
                                                  : options_.listen;
  if (is_on_one_machine) std::filesystem::remove(address);  // the former supervisor's
  const net::Secret secret = has_own_secret_ && !former_ ? net::Secret::create(secret_) : net::Secret::load(secret_);
  const std::filesystem::path log = is_on_one_machine ? directory_.own_decisions() : directory_.decisions();
  coordinator_.emplace(address, secret, options_.all_nodes, admission(),
                       team::Coordinator::Log{std::make_unique<authority::FileStore>(log), terms(options_)},
                       options_.silence);
  record_.meeting = coordinator_->address();
}

void Supervisor::stand_for_office() {
  const auto address = authority::EtcdAddress::parse(options_.authority);
  candidacy_.emplace(
      team::Candidacy::Settings{.open_records = [address] { return std::make_unique<authority::EtcdStore>(address); },
                                .pool = address.pool,
                                .address = options_.listen,
                                .owner = host_identity() + " " + directory_.path().string(),
                                .size = options_.all_nodes,
                                .terms = terms(options_),
                                .admission = admission(),
                                .silence = options_.silence,
                                .may_wait = !running_.empty()},
      net::Secret::load(secret_));
}

// An operator may have the nodes follow another coordinator, unless there is one machine or an authority is asked.
std::string Supervisor::way_to_coordinator() const {
  return is_on_several_machines() ? "file:" + directory_.meeting().string() : record_.meeting;
}

void Supervisor::report_dead(team::Rank rank) {
  if (coordinator_) coordinator_->report_dead(rank);
  if (candidacy_) candidacy_->report_dead(rank);
}

// All nodes of this machine have ended.
void Supervisor::end_team() {
  if (coordinator_) coordinator_->end_team();
  if (candidacy_) candidacy_->leave(own_ranks());
}

team::Coordinator::Admission Supervisor::admission() const {
  team::MemberCard expected = team::MemberCard::of_this_process(0);
  expected.terms = terms(options_);
  return team::MemberCard::admission(std::move(expected));
}

std::vector<team::Rank> Supervisor::own_ranks() const {
  std::vector<team::Rank> ranks(options_.nodes);
  std::iota(ranks.begin(), ranks.end(), options_.first_rank);
  return ranks;
}

std::vector<team::AdoptedProcess> Supervisor::adopt() {
  std::vector<team::AdoptedProcess> adopted;
  for (RunningNode& node : running_) adopted.push_back({node.rank, node.process, std::move(node.pidfd)});
  return adopted;
}

team::LaunchPlan Supervisor::plan() {
  std::vector<std::string> environment = {std::string(team::kCoordinatorVariable) + "=" + way_to_coordinator(),
                                          std::string(team::kSecretFileVariable) + "=" + secret_.string(),
                                          std::string(team::kTermsVariable) + "=" + terms(options_)};
  environment.push_back(std::string(team::kListenVariable) + "=" + (candidacy_ ? options_.listen : ""));
  if (mount_watch_.instance) environment.push_back(mount_watch_.variable);
  return {.command = node_command(directory_, options_),
          .ranks = options_.nodes,
          .first_rank = options_.first_rank,
          .environment = std::move(environment),
          .claim = [this](team::Rank rank) { return claim_node(directory_.node_lock(rank)); },
          .end_all_on_failure = false,
          .on_death = [this](team::Rank rank) { report_dead(rank); },
          .on_end =
              [this](team::Rank rank, const std::string& how) {
                if (coordinator_) coordinator_->miss(rank, how);
                if (candidacy_) candidacy_->miss(rank, how);
              },
          .restart = team::RestartPolicy{},
          .on_restart = [this](team::Rank rank, pid_t process) { record_restart(rank, process); }};
}

std::uint32_t Supervisor::restarts_before(team::Rank rank) const {
  if (!former_) return 0;
  const auto node = std::ranges::find(former_->nodes, rank, &PoolRecord::Node::rank);
  return (node == former_->nodes.end() ? 0 : node->restarts) + (runs(rank) ? 0 : 1);
}

void Supervisor::write_first_record(const team::Launcher& launcher) {
  for (const team::Rank rank : own_ranks()) record_.nodes.push_back({rank, launcher.pid(rank), restarts_before(rank)});
  directory_.write_record(record_);
}

void Supervisor::record_restart(team::Rank rank, pid_t process) {
  PoolRecord::Node& node = record_.nodes.at(rank - options_.first_rank);
  node.process = process;
  ++node.restarts;
  try {
    directory_.write_record(record_);
  } catch (const Error& error) {  // the nodes serve all the same
    log::error(std::string("farside status shows the former processes until the next restart: ") + error.what());
  }
}

}  // namespace farside::node
