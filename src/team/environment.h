// environment.h — how a launcher tells a process which member of which team it is.
//
// Stands alone: launchers set what members read.
#pragma once

namespace farside::team {

inline constexpr const char* kCoordinatorVariable =
    "FARSIDE_COORDINATOR";  ///< a socket's path, host:port, or etcd://...
/// This machine's address for the case that it coordinates, in pools whose coordinator the authority names.
inline constexpr const char* kListenVariable = "FARSIDE_LISTEN";
inline constexpr const char* kSecretFileVariable = "FARSIDE_SECRET_FILE";  ///< the path of the pool's secret
inline constexpr const char* kRankVariable = "FARSIDE_RANK";
inline constexpr const char* kTermsVariable = "FARSIDE_TERMS";  ///< MemberCard::terms; need not be set

}  // namespace farside::team
