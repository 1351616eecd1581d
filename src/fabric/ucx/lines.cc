// The lines of a UCX engine (line.h): hellos from peers' channels, the answers to them, and failures.
#include <algorithm>
#include <new>
#include <unordered_set>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "fabric/ucx/line.h"

namespace farside {

namespace {

// The most endpoints that the service thread opens before it lets other threads use the worker.
constexpr unsigned kEndpointsATurn = 32;

// The most channels of peers whose endpoints are counted.
constexpr std::size_t kMaxWorkers = 65'536;

}  // namespace

// Called by UCX within progress, under the mutex.
void UcxEngine::on_line_error(void* line, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) NO_THREAD_SAFETY_ANALYSIS {
  Line& failed = *static_cast<Line*>(line);
  failed.failed = true;
  failed.engine.line_failed_ = true;
}

// The same.
void UcxEngine::fail_line(ucp_ep_h endpoint) NO_THREAD_SAFETY_ANALYSIS {
  const auto line = std::ranges::find(lines_, endpoint, [](const Line& each) { return each.endpoint.get(); });
  if (line != lines_.end()) line->failed = line_failed_ = true;
}

bool UcxEngine::drop_failed_lines() {
  if (!std::exchange(line_failed_, false)) return false;
  bool lost = false;
  lines_.remove_if([&](const Line& line) {
    if (line.failed && line.lifeline_of != nullptr) lost |= !line.lifeline_of->lost.exchange(true);
    return line.failed;
  });
  return lost;
}

// The same.
ucs_status_t UcxEngine::on_hello(void* engine, const void* /*header*/, std::size_t /*header_bytes*/, void* message,
                                 std::size_t bytes, const ucp_am_recv_param_t* params) NO_THREAD_SAFETY_ANALYSIS {
  UcxEngine& self = *static_cast<UcxEngine*>(engine);
  if (!arrived_whole(*params)) return UCS_OK;
  try {
    self.take_hello({static_cast<const char*>(message), bytes});
  } catch (const std::bad_alloc&) {
    self.report_dropped_hello();
  }
  return UCS_OK;
}

void UcxEngine::take_hello(std::string_view hello) try {
  hellos_.push_back(UcxHello::decode(hello, self_.secret, self_.identity));
} catch (const Error& error) {
  log_.warn(error.what());
}

void UcxEngine::report_dropped_hello() noexcept try {
  log_.warn("no memory for a peer's hello: its link stays unanswered");
} catch (const std::bad_alloc&) {  // nor for the line
}

bool UcxEngine::answer_hellos() {
  if (hellos_.empty()) return false;
  unsigned left = kEndpointsATurn;
  while (!hellos_.empty() && left > 0) {
    try {
      if (!answer_hello(hellos_.front(), left)) break;
    } catch (const std::bad_alloc&) {
      report_dropped_hello();
    }
    hellos_.pop_front();
  }
  return true;
}

// UCX makes a pair of the nth endpoint from one worker to another and the nth one back. Those whose hello never came
// get their other end too, and lose it at once.
bool UcxEngine::answer_hello(const UcxHello& hello, unsigned& left) {
  if (!endpoints_opened_.contains(hello.worker) && !has_room_for_worker()) {
    log_.warn("too many channels of peers are connected through UCX; a further one stays unanswered");
    return true;
  }
  std::uint64_t& opened = endpoints_opened_[hello.worker];
  // Nothing is done for a number that cannot be: what this channel has connected before stays.
  const bool is_plausible = hello.nth > opened && hello.nth - opened <= kMaxMissedHellos + 1;
  if (!is_plausible) {
    log_.warn("a peer's UCX connection could not be told from others of its worker; it stays unwelcome");
    return true;
  }
  for (; opened + 1 < hello.nth && left > 0; ++opened, --left) {
    const UcxEndpoint missed(
        worker_, hello.worker, [](void*, ucp_ep_h, ucs_status_t) {}, nullptr);
  }
  if (opened + 1 < hello.nth || left == 0) return false;
  --left;
  receive(hello, opened);
  return true;
}

// A worker that was forgotten counts on where it was, so its next links fail until it is given up for a new one.
bool UcxEngine::has_room_for_worker() {
  if (endpoints_opened_.size() < kMaxWorkers) return true;
  std::unordered_set<std::string_view> connected;
  for (const Line& line : lines_) connected.insert(line.worker);
  std::erase_if(endpoints_opened_, [&](const auto& entry) { return !connected.contains(entry.first); });
  return endpoints_opened_.size() < kMaxWorkers;
}

void UcxEngine::receive(const UcxHello& hello, std::uint64_t& opened) {
  // A channel has one link to us at a time. UCX does not say when it closed the one before.
  lines_.remove_if([&](const Line& line) { return line.is_guest_of(hello); });
  std::list<Line> made;  // goes, with its endpoint, where memory is lacking
  Line& line = made.emplace_back(*this, hello);
  ++opened;
  assert_that(opened == hello.nth, "a hello is answered by the endpoint of the same number");
  line.endpoint = UcxEndpoint(worker_, hello.worker, &on_line_error, &line);
  if (!line.endpoint) return log_.warn("cannot answer a peer through UCX: " + line.endpoint.why_not());
  const bool welcome = !revoked_.contains(hello.identity);
  if (welcome) target_.admit(line.endpoint.get());
  lines_.splice(lines_.end(), made);
  answer(line, welcome);
}

void UcxEngine::answer(Line& line, bool welcome) {
  assert_that(line.endpoint && line.lifeline_of == nullptr, "a guest is answered by its own endpoint");
  line.answer.welcome = welcome ? 1 : 0;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;  // has UCX tell each end the other's name
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(line.endpoint.get(), kAnswerMessage, nullptr, 0, &line.answer, sizeof line.answer, &params);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

}  // namespace farside
