// The lines of a UCX engine (line.h): greetings from peers' channels, the answers to them, and failures.
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
ucs_status_t UcxEngine::on_greeting(void* engine, const void* /*header*/, std::size_t /*header_bytes*/, void* message,
                                    std::size_t bytes, const ucp_am_recv_param_t* params) NO_THREAD_SAFETY_ANALYSIS {
  UcxEngine& self = *static_cast<UcxEngine*>(engine);
  if (!arrived_whole(*params)) return UCS_OK;
  try {
    self.take_greeting({static_cast<const char*>(message), bytes});
  } catch (const std::bad_alloc&) {
    self.report_dropped_greeting();
  }
  return UCS_OK;
}

void UcxEngine::take_greeting(std::string_view greeting) try {
  greetings_.push_back(UcxGreeting::decode(greeting, self_.secret, self_.identity));
} catch (const Error& error) {
  log_.warn(error.what());
}

void UcxEngine::report_dropped_greeting() noexcept try {
  log_.warn("no memory for a peer's greeting: its link stays unanswered");
} catch (const std::bad_alloc&) {  // nor for the line
}

bool UcxEngine::answer_greetings() {
  if (greetings_.empty()) return false;
  unsigned left = kEndpointsATurn;
  while (!greetings_.empty() && left > 0) {
    try {
      if (!answer_greeting(greetings_.front(), left)) break;
    } catch (const std::bad_alloc&) {
      report_dropped_greeting();
    }
    greetings_.pop_front();
  }
  return true;
}

// UCX makes a pair of the nth endpoint from one worker to another and the nth one back. Those whose greeting never came
// get their other end too, and lose it at once.
bool UcxEngine::answer_greeting(const UcxGreeting& greeting, unsigned& left) {
  if (!endpoints_opened_.contains(greeting.worker) && !has_room_for_worker()) {
    log_.warn("too many channels of peers are connected through UCX; a further one stays unanswered");
    return true;
  }
  std::uint64_t& opened = endpoints_opened_[greeting.worker];
  // Nothing is done for a number that cannot be: what this channel has connected before stays.
  const bool is_plausible = greeting.nth > opened && greeting.nth - opened <= kMaxMissedGreetings + 1;
  if (!is_plausible) {
    log_.warn("a peer's UCX connection could not be told from others of its worker; it stays unwelcome");
    return true;
  }
  for (; opened + 1 < greeting.nth && left > 0; ++opened, --left) {
    const UcxEndpoint missed(
        worker_, greeting.worker, [](void*, ucp_ep_h, ucs_status_t) {}, nullptr);
  }
  if (opened + 1 < greeting.nth || left == 0) return false;
  --left;
  receive(greeting, opened);
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

void UcxEngine::receive(const UcxGreeting& greeting, std::uint64_t& opened) {
  // A channel has one link to us at a time. UCX does not say when it closed the one before.
  lines_.remove_if([&](const Line& line) { return line.is_guest_of(greeting); });
  std::list<Line> made;  // goes, with its endpoint, where memory is lacking
  Line& line = made.emplace_back(*this, greeting);
  ++opened;
  assert_that(opened == greeting.nth, "a greeting is answered by the endpoint of the same number");
  line.endpoint = UcxEndpoint(worker_, greeting.worker, &on_line_error, &line);
  if (!line.endpoint) return log_.warn("cannot answer a peer through UCX: " + line.endpoint.why_not());
  const bool welcome = !revoked_.contains(greeting.identity);
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
