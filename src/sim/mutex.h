// mutex.h — mutexes of simulated threads.
//
// All simulated threads are one thread to the C library, which would wait for itself for ever when one of them takes a
// mutex that another one holds. So a program that links the simulator has its own pthread_mutex_lock (std::mutex takes
// that): a simulated thread lets others go on until the mutex is free. And its own pthread_mutex_unlock: what a thread
// has stored is in memory before the next holder stores there, however long a store buffer may keep it otherwise.
#pragma once

namespace farside::sim {

class Scheduler;

/// The scheduler of the simulated thread that runs in this thread of the program; null if none does. To be set while
/// one does.
[[nodiscard]] Scheduler*& scheduler_of_simulated_thread() noexcept;

}  // namespace farside::sim
