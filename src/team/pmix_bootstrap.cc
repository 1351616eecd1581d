#include <array>
#include <chrono>
#include <memory>

#include <pmix.h>

#include "farside/base/error.h"

#include "base/hmac.h"
#include "team/bootstrap.h"

namespace farside::team {

namespace {

void check(pmix_status_t status, const std::string& tried) {
  if (status == PMIX_SUCCESS) return;
  throw Error({tried, "through PMIx", ::PMIx_Error_string(status), "look at what mpirun or srun printed"});
}

struct ValueDeleter {
  void operator()(pmix_value_t* value) const { PMIX_VALUE_RELEASE(value); }
};
using Value = std::unique_ptr<pmix_value_t, ValueDeleter>;

class PmixBootstrap final : public Bootstrap {
 public:
  PmixBootstrap() {
    check(::PMIx_Init(&self_, nullptr, 0), "join the job");
    size_ = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, "read the job's size")->data.uint32;
  }
  ~PmixBootstrap() override { ::PMIx_Finalize(nullptr, 0); }
  PmixBootstrap(const PmixBootstrap&) = delete;
  PmixBootstrap& operator=(const PmixBootstrap&) = delete;

  [[nodiscard]] Rank rank() const override { return self_.rank; }
  [[nodiscard]] Rank size() const override { return size_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 0; }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& tried, std::string blob,
                                                  net::SetupClock::time_point deadline) override {
    const std::string key = "farside." + std::to_string(exchanges_++);
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo = {blob.data(), blob.size()};
    check(::PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), tried);
    check(::PMIx_Commit(), tried);
    fence(tried, deadline);

    std::vector<std::string> blobs;
    for (Rank rank = 0; rank < size_; ++rank) {
      const Value found = get(rank, key.c_str(), tried);
      if (found->type != PMIX_BYTE_OBJECT) check(PMIX_ERR_TYPE_MISMATCH, tried);
      blobs.emplace_back(found->data.bo.bytes, found->data.bo.size);
    }
    return blobs;
  }

  /// Rank 0 draws it; the launcher keeps what its job's processes exchange from others.
  [[nodiscard]] std::string fabric_secret(net::SetupClock::time_point deadline) override {
    const Nonce drawn = random_nonce();
    return exchange("share a secret", std::string(drawn.begin(), drawn.end()), deadline).front();
  }

  void evict(Rank, std::uint16_t) override {}
  [[nodiscard]] bool tells_of_evictions() const override { return false; }
  void leave() override {}

 private:
  [[nodiscard]] pmix_proc_t process(Rank rank) const {
    pmix_proc_t process = self_;
    process.rank = rank;
    return process;
  }

  [[nodiscard]] Value get(Rank rank, const char* key, const std::string& tried) const {
    const pmix_proc_t from = process(rank);
    pmix_value_t* value = nullptr;
    check(::PMIx_Get(&from, key, nullptr, 0, &value), tried);
    return Value(value);
  }

  // Every rank has committed, and what it committed has travelled.
  void fence(const std::string& tried, net::SetupClock::time_point deadline) const {
    const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - net::SetupClock::now()).count();
    const int timeout_s = left < 1 ? 1 : static_cast<int>(left);
    const bool collect = true;
    std::array<pmix_info_t, 2> options{};
    PMIX_INFO_LOAD(&options[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_INFO_LOAD(&options[1], PMIX_TIMEOUT, &timeout_s, PMIX_INT);
    const pmix_proc_t all_ranks = process(PMIX_RANK_WILDCARD);
    check(::PMIx_Fence(&all_ranks, 1, options.data(), options.size()), tried);
  }

  pmix_proc_t self_{};
  Rank size_ = 0;
  std::uint64_t exchanges_ = 0;
};

}  // namespace

std::unique_ptr<Bootstrap> make_pmix_bootstrap() { return std::make_unique<PmixBootstrap>(); }

}  // namespace farside::team
