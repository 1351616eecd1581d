// sendable.h — what may be sent to another process: values whose bytes mean the same there.
//
// Every template that sends, stores or exchanges elements takes Sendable, so that others do not compile:
//
//   collectives.all_gather(channel, strings, all, deadline);   // std::string: its characters would stay here
//   GlobalArray<Node*> nodes(comm, 100);                       // an address of this process
//
// A compiler does not tell that a struct has a pointer as a member. Such a type of the program's own is refused after
//
//   template <>
//   inline constexpr bool farside::comm::kNamesLocalMemory<Node> = true;
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "farside/fabric/region.h"

namespace farside::comm {

/// It can be copied byte by byte, but names memory of this process: addresses, spans, pointers to elements.
template <class T>
inline constexpr bool kNamesLocalMemory =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>;

/// The same for a type as it is written, with its const and its extents.
template <class T>
inline constexpr bool kHasLocalNames = kNamesLocalMemory<std::remove_cv_t<std::remove_all_extents_t<T>>>;

template <class T, std::size_t kSize>
inline constexpr bool kNamesLocalMemory<std::array<T, kSize>> = kHasLocalNames<T>;
template <class T>
inline constexpr bool kNamesLocalMemory<std::optional<T>> = kHasLocalNames<T>;
template <class T, class U>
inline constexpr bool kNamesLocalMemory<std::pair<T, U>> = kHasLocalNames<T> || kHasLocalNames<U>;
template <class... T>
inline constexpr bool kNamesLocalMemory<std::variant<T...>> = (kHasLocalNames<T> || ...);
template <std::input_or_output_iterator T>
inline constexpr bool kNamesLocalMemory<T> = true;
template <class T>
inline constexpr bool kNamesLocalMemory<std::initializer_list<T>> = true;
template <class T, std::size_t kSize>
inline constexpr bool kNamesLocalMemory<std::span<T, kSize>> = true;
template <class Character, class Traits>
inline constexpr bool kNamesLocalMemory<std::basic_string_view<Character, Traits>> = true;
template <class T>
inline constexpr bool kNamesLocalMemory<std::reference_wrapper<T>> = true;
template <>
inline constexpr bool kNamesLocalMemory<LocalSpan> = true;
template <>
inline constexpr bool kNamesLocalMemory<RemoteSpan> = true;
template <SharedWord Word>
inline constexpr bool kNamesLocalMemory<RemoteWord<Word>> = true;

/// Its bytes are what it says, in whatever process.
template <class T>
concept Sendable = PlainValue<T> && !std::is_reference_v<T> && !kHasLocalNames<T>;

}  // namespace farside::comm
