// What must not be sent does not compile: each template that sends elements refuses it.
#include "farside/comm/sendable.h"

#include <complex>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "farside/arrays/arrays.h"
#include "farside/comm/collectives.h"
#include "farside/comm/parts.h"
#include "farside/gas/global_array.h"
#include "farside/gas/patch.h"

namespace farside::test {
namespace {

struct Particle {
  double mass;
  std::array<float, 3> place;
};
struct Node {
  Node* next;
};
enum class Colour : std::uint8_t { red };

}  // namespace
}  // namespace farside::test

template <>
inline constexpr bool farside::comm::kNamesLocalMemory<farside::test::Node> = true;

namespace farside::test {
namespace {

template <class... T>
inline constexpr bool kAll = (comm::Sendable<T> && ...);
template <class... T>
inline constexpr bool kNone = (!comm::Sendable<T> && ...);

static_assert(kAll<int, bool, double, const double, Colour, Particle, std::complex<double>, std::array<int, 3>, int[3],
                   std::optional<int>, gas::PageUse>);
static_assert(kNone<std::string, std::vector<int>, std::unique_ptr<int>, std::function<void()>>,
              "not trivially copyable");
static_assert(kNone<int*, const char*, void*, int* const, void (*)(), int Particle::*, std::nullptr_t, int&>,
              "addresses");
static_assert(kNone<std::string_view, std::span<int>, std::span<int, 3>, std::reference_wrapper<int>, LocalSpan,
                    RemoteSpan, RemoteWord<AtomicWord>>,
              "addresses in what is trivially copyable");
static_assert(kNone<std::vector<int>::iterator, std::initializer_list<int>, std::variant<int, const char*>,
                    std::optional<std::vector<int>::const_iterator>>,
              "the same where it is less visible");
static_assert(kAll<std::variant<int, double>>);
static_assert(kNone<gas::GlobalPointer<int>, gas::GlobalReference<int>>, "places in an array of this process");
static_assert(kNone<std::array<int*, 3>, int* [3], const char* const[2][3], std::optional<int*>,
                    std::array<gas::GlobalPointer<int>, 2>>,
              "several of them");
static_assert(kNone<Node, std::array<Node, 2>>, "what the program has said");

// Each template.

template <class T>
concept CanBeGathered = requires(comm::Collectives& group, Channel& channel, std::span<T> values, Deadline deadline) {
  group.all_gather(channel, values, values, deadline);
};
template <class T>
concept CanBeExchanged = requires(comm::Collectives& group, Channel& channel, std::span<T> values, Deadline deadline) {
  group.all_to_all(channel, values, values, deadline);
};
template <class T>
concept CanBeReduced = requires(comm::Collectives& group, Channel& channel, std::span<T> values, Deadline deadline) {
  group.all_reduce(channel, values, deadline, comm::Max());
  group.reduce(channel, 0, values, deadline, comm::Max());
};
template <class T>
concept CanBeIndexed = requires(const RemoteRegion& region, std::span<T> values) {
  comm::indexed(region, 0, {}, values);
};
template <class T>
concept CanBeInAnArray = requires {
  typename gas::GlobalArray<T>;
};
template <class T>
concept CanBeInAVector = requires {
  typename farside::arrays::Array<T, 1>;
};
template <class T>
concept CanBeReducedInAWorld = requires(farside::arrays::World& world, T value) {
  world.all_reduce(value, comm::Max());
};

template <class T>
inline constexpr bool kIsTakenByAll = CanBeGathered<T>&& CanBeExchanged<T>&& CanBeReduced<T>&& CanBeIndexed<T>&&
    CanBeInAnArray<T>&& CanBeInAVector<T>&& CanBeReducedInAWorld<T>;
template <class T>
inline constexpr bool kIsTakenByOne = CanBeGathered<T> || CanBeExchanged<T> || CanBeReduced<T> || CanBeIndexed<T> ||
                                      CanBeInAnArray<T> || CanBeInAVector<T> || CanBeReducedInAWorld<T>;

static_assert(kIsTakenByAll<double>);
static_assert(!kIsTakenByOne<std::string>);
static_assert(!kIsTakenByOne<int*>);
static_assert(!kIsTakenByOne<std::string_view>);
static_assert(!kIsTakenByOne<gas::GlobalPointer<double>>);
static_assert(!kIsTakenByOne<Node>);

TEST(Sendable, IsCheckedByTheCompiler) {}

}  // namespace
}  // namespace farside::test
