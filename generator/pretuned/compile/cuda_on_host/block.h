// A block of threads: who runs, who waits, who is done; barriers; and what to tell when something is wrong.

#pragma once

#include <cstdarg>

#include "fibers.h"
#include "vector_types.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace pretuned {

constexpr unsigned max_threads = 1024;
constexpr unsigned warp_lanes = 32;
constexpr unsigned max_warps = max_threads / warp_lanes;

enum class State : unsigned char { unstarted, running, ready, at_barrier, in_warp, done };

struct Slot {  // as in execution.h
    unsigned long long words[2];
};

struct Thread {
    uint3 index;
    unsigned number;  // in the block
    State state;
    Fiber* fiber;
    int line;  // where it waits
    // Of a warp operation:
    int operation;
    unsigned mask;
    int source;
    Slot given;
    Slot taken;
};

struct Warp {
    unsigned living;   // lanes that have not left the kernel
    unsigned waiting;  // lanes in a warp operation
    unsigned long long epoch;  // every __syncwarp() begins another
};

using Body = void (*)(void**);

Body body;
void** arguments;
Thread threads[max_threads];
Warp warps[max_warps];
unsigned thread_count, started, finished;
bool backwards;  // threads start from the last to the first
bool strict;     // barriers that not all threads reach in the same place are problems, even where a GPU would go on

Thread* ready[max_threads];  // a ring
unsigned ready_first, ready_count;
Fiber* all_fibers[max_threads + 1];
Fiber* free_fibers;
unsigned fiber_count;

inline Thread* self() { return current->thread; }

// --- Problems

char problem[1024];         // what is wrong, empty if nothing is
const void* addresses[2];   // of the code that it concerns

inline bool failed() { return problem[0] != '\0'; }

// Keeps the first problem.
[[gnu::format(printf, 1, 2)]] inline void tell(const char* format, ...) {
    if (failed()) {
        return;
    }
    va_list values;
    va_start(values, format);
    std::vsnprintf(problem, sizeof problem, format, values);
    va_end(values);
}

// A thread as messages name it; the text lives as long as the expression.
struct Name {
    char text[48];
    explicit Name(const Thread& thread) {
        std::snprintf(text, sizeof text, "(%u, %u, %u)", thread.index.x, thread.index.y, thread.index.z);
    }
    operator const char*() const { return text; }
};

[[noreturn]] inline void leave() {  // the launch has failed: this fiber is not resumed
    switch_to(&main_fiber);
    std::abort();
}

// --- Who goes on

void fiber_main();
void leave_warp(const Thread& thread);
void end_epoch();  // of accesses to shared memory

inline void make_ready(Thread* thread) {
    thread->state = State::ready;
    ready[(ready_first + ready_count++) % max_threads] = thread;
}

inline Fiber* take_fiber() {
    if (free_fibers == nullptr) {
        all_fibers[fiber_count] = make_fiber(fiber_main, fiber_count);
        return all_fibers[fiber_count++];
    }
    Fiber* fiber = free_fibers;
    free_fibers = fiber->next_free;
    return fiber;
}

inline void give_back(Fiber* fiber) {
    fiber->thread = nullptr;
    fiber->next_free = free_fibers;
    free_fibers = fiber;
}

// The fiber of a thread that may go on, or one that takes threads that have not started; else the one that launches.
inline Fiber* next_fiber() {
    if (failed()) {
        return &main_fiber;
    }
    if (ready_count > 0) {
        Thread* thread = ready[ready_first];
        ready_first = (ready_first + 1) % max_threads;
        --ready_count;
        thread->state = State::running;
        return thread->fiber;
    }
    return started < thread_count ? take_fiber() : &main_fiber;
}

// Lets others run until somebody makes this thread ready.
inline void suspend() {
    Thread* thread = self();
    Fiber* next = next_fiber();
    if (next != thread->fiber) {
        switch_to(next);
    }
    threadIdx = thread->index;
}

inline Thread& in_order(unsigned position) { return threads[backwards ? thread_count - 1 - position : position]; }

// --- Barriers

enum Barrier : int { plain, count, conjunction, disjunction };

struct {
    unsigned waiting;
    int line;
    int value;   // of the predicates so far
    int result;  // of the last barrier that opened
} barrier;

// Every barrier, block and launch begins another: accesses of one epoch are not ordered.
unsigned long long epoch = 1;
unsigned long long block_epoch;  // in which the block began

inline const Thread* waiting_thread() {
    for (unsigned i = 0; i < thread_count; ++i) {
        if (threads[i].state == State::at_barrier) {
            return &threads[i];
        }
    }
    return nullptr;
}

inline void open_barrier() {
    barrier.result = barrier.value;
    barrier.waiting = 0;
    end_epoch();
    ++epoch;
    for (unsigned i = 0; i < thread_count; ++i) {
        Thread& thread = in_order(i);
        if (thread.state == State::at_barrier) {
            make_ready(&thread);
        }
    }
}

inline void check_divergence(const Thread& thread) {
    if (barrier.waiting > 0 && thread.line != barrier.line) {
        const Thread& other = *waiting_thread();
        tell("divergent barrier: thread %s waits in __syncthreads() at kernel.cu:%d, thread %s at kernel.cu:%d",
             static_cast<const char*>(Name(other)), other.line, static_cast<const char*>(Name(thread)), thread.line);
    } else if (finished > 0) {
        tell("divergent barrier: thread %s waits in __syncthreads() at kernel.cu:%d, and %u threads have left the kernel",
             static_cast<const char*>(Name(thread)), thread.line, finished);
    }
}

inline int meet(int line, int predicate, int kind) {
    Thread& thread = *self();
    thread.line = line;
    if (strict) {
        check_divergence(thread);
        if (failed()) {
            leave();
        }
    }
    if (barrier.waiting == 0) {
        barrier.line = line;
        barrier.value = kind == conjunction;  // the neutral element
    }
    const int holds = predicate != 0;
    barrier.value = kind == count         ? barrier.value + holds
                    : kind == conjunction ? barrier.value & holds
                                          : barrier.value | holds;
    thread.state = State::at_barrier;
    if (++barrier.waiting == thread_count - finished) {
        open_barrier();
    }
    suspend();
    return barrier.result;
}

// --- A thread's life

// Others may have waited for this thread alone: who has left the kernel is waited for no longer (CUDA C++ Programming
// Guide, "Synchronization Functions", for compute capability 7.0 and higher).
inline void finish(Thread& thread) {
    thread.state = State::done;
    ++finished;
    leave_warp(thread);
    if (barrier.waiting == 0) {
        return;
    }
    if (strict) {
        const Thread& other = *waiting_thread();
        tell("divergent barrier: thread %s waits in __syncthreads() at kernel.cu:%d, and thread %s has left the kernel",
             static_cast<const char*>(Name(other)), other.line, static_cast<const char*>(Name(thread)));
    } else if (barrier.waiting == thread_count - finished) {
        open_barrier();
    }
}

inline void fiber_main() {
    arrive(current, left);
    for (;;) {
        Fiber* fiber = current;
        while (started < thread_count && ready_count == 0 && !failed()) {
            Thread& thread = in_order(started++);
            thread.state = State::running;
            thread.fiber = fiber;
            fiber->thread = &thread;
            threadIdx = thread.index;
            body(arguments);
            finish(thread);
        }
        give_back(fiber);
        switch_to(next_fiber());
    }
}

// Runs the block until it is done or has failed; returns false where it is stuck.
inline bool run_block() {
    started = finished = ready_first = ready_count = 0;
    barrier = {};
    block_epoch = ++epoch;
    for (unsigned i = 0; i < thread_count; ++i) {
        threads[i].state = State::unstarted;
    }
    for (unsigned first = 0; first < thread_count; first += warp_lanes) {
        const unsigned lanes = thread_count - first;
        warps[first / warp_lanes].living = lanes < warp_lanes ? (1u << lanes) - 1 : ~0u;
        warps[first / warp_lanes].waiting = 0;
    }
    while (finished < thread_count && !failed()) {
        Fiber* next = next_fiber();
        if (next == &main_fiber) {
            return false;
        }
        switch_to(next);
    }
    end_epoch();
    return true;
}

inline void renew_fibers() {
    free_fibers = nullptr;
    for (unsigned i = 0; i < fiber_count; ++i) {
        renew(all_fibers[i], fiber_main);
        give_back(all_fibers[i]);
    }
}

}  // namespace pretuned
