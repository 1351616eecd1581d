#include "sim/fiber.h"

#include <exception>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace farside::sim {

namespace {

constexpr std::size_t kStackBytes = 128U << 10U;

// The stack of a fiber, owned by Fiber and only borrowed by Boost.
class BorrowedStack {
 public:
  explicit BorrowedStack(boost::context::stack_context context) : context_(context) {}
  [[nodiscard]] boost::context::stack_context allocate() const { return context_; }
  void deallocate(boost::context::stack_context& /*context*/) const noexcept {}

 private:
  boost::context::stack_context context_;
};

// The address sanitizer must be told of every change of stacks.
void before_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* bottom,
                   [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#endif
}

void after_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** bottom,
                  [[maybe_unused]] std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
#endif
}

// A simulation makes and ends thousands of fibers. A stack that was in use is warm and mapped: it is used again.
class StackPool {
 public:
  using Bytes = std::unique_ptr<std::byte[]>;  // NOLINT(modernize-avoid-c-arrays)
  static Bytes take() {
    if (free().empty()) return Bytes(new std::byte[kStackBytes]);
    Bytes bytes = std::move(free().back());
    free().pop_back();
    return bytes;
  }
  static void give_back(Bytes bytes) { free().push_back(std::move(bytes)); }

 private:
  static std::vector<Bytes>& free() {
    thread_local std::vector<Bytes> stacks;
    return stacks;
  }
};

}  // namespace

struct Fiber::Stack {
  Stack() = default;
  ~Stack() { StackPool::give_back(std::move(bytes)); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  StackPool::Bytes bytes = StackPool::take();
  void* fake_stack = nullptr;          // of the fiber, while it is not running
  void* outside_fake_stack = nullptr;  // of the code that resumed it
  const void* outside_bottom = nullptr;
  std::size_t outside_bytes = 0;
};

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(std::make_unique<Stack>()) {
  boost::context::stack_context context;
  context.sp = stack_->bytes.get() + kStackBytes;
  context.size = kStackBytes;
  inside_ = boost::context::fiber(std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
                                  BorrowedStack(context), [this](boost::context::fiber&& outside) {
                                    after_switch(nullptr, &stack_->outside_bottom, &stack_->outside_bytes);
                                    outside_ = std::move(outside);
                                    try {
                                      body_();
                                    } catch (const boost::context::detail::forced_unwind&) {
                                      throw;
                                    } catch (...) {
                                      failure_ = std::current_exception();
                                    }
                                    finished_ = true;
                                    before_switch(nullptr, stack_->outside_bottom, stack_->outside_bytes);
                                    return std::move(outside_);
                                  });
}

// Its context is never destroyed, which would unwind it. Its stack may go: it is not used any more.
Fiber::~Fiber() {
  if (finished_) return;
  // Reachable for ever, so that it is no leak.
  static auto& graveyard = *new std::vector<boost::context::fiber>;
  graveyard.push_back(std::move(inside_));
#if defined(__SANITIZE_ADDRESS__)
  // Nor is what the stack points to, as long as there is a stack.
  static auto& stacks = *new std::vector<std::unique_ptr<Stack>>;
  stacks.push_back(std::move(stack_));
#endif
}

void Fiber::resume() {
  before_switch(&stack_->outside_fake_stack, stack_->bytes.get(), kStackBytes);
  inside_ = std::move(inside_).resume();
  after_switch(stack_->outside_fake_stack, nullptr, nullptr);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Fiber::leave() {
  before_switch(&stack_->fake_stack, stack_->outside_bottom, stack_->outside_bytes);
  outside_ = std::move(outside_).resume();
  after_switch(stack_->fake_stack, &stack_->outside_bottom, &stack_->outside_bytes);
}

}  // namespace farside::sim
