// Runs kernels on the host: see execution.h for what it is, and why. Linked into every compiled module, so that each
// has a state of its own.
//
// Theory of operation. A launch runs its blocks in turn. In a block, a fiber takes threads from the list and calls the
// kernel for one after another; when a thread has to wait, its fiber is set aside with it, and the next ready thread
// or, if there is none, another fiber with the next thread goes on. When nobody can go on and no thread is left to
// start, the block is stuck: a mask that not all lanes reach, which is told with the lines that wait. Every other launch
// takes its threads from the last to the first, so that a missing barrier shows in results even without the detector.
//
// A problem ends the launch: what waits is left where it is, and `pretuned_launch` returns what to tell.

#include <csignal>
#include <initializer_list>

#include <unistd.h>

#include "block.h"
#include "fibers.h"
#include "races.h"
#include "warps.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Kernels see these as constants; every thread and block sees others.
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace pretuned {

#ifdef PRETUNED_ADDRESS
// --- Arrays of a call, so that a report can name them

struct Array {
    char* begin;
    std::size_t bytes, guard, behind;  // guard bytes before and after
    char name[64];
};

constexpr unsigned max_arrays = 64;
Array arrays[max_arrays];
unsigned array_count;

void write_array() {
    const char* address = static_cast<const char*>(__asan_get_report_address());
    for (unsigned i = 0; i < array_count; ++i) {
        const Array& array = arrays[i];
        if (address < array.begin - array.guard || address >= array.begin + array.bytes + array.behind) {
            continue;
        }
        char text[128];
        const bool before = address < array.begin;
        const int length = std::snprintf(text, sizeof text, "\nkernel: array %zu bytes %s '%s'\n",
                                         static_cast<std::size_t>(before ? array.begin - address
                                                                         : address - array.begin - array.bytes),
                                         before ? "before" : "past the end of", array.name);
        if (write(STDERR_FILENO, text, length) < 0) {
            _exit(71);
        }
    }
}
#endif

// --- Signals: where a thread was when the process ended

void write_place(const char* what) {
#ifdef PRETUNED_ADDRESS
    write_array();
#endif
    char text[256];
    int length = std::snprintf(text, sizeof text, "\nkernel: %s in block (%u, %u, %u)", what, blockIdx.x, blockIdx.y,
                               blockIdx.z);
    if (const Thread* thread = self()) {
        length += std::snprintf(text + length, sizeof text - length, ", thread %s",
                                static_cast<const char*>(Name(*thread)));
    }
    text[length++] = '\n';
    if (write(STDERR_FILENO, text, length) < 0) {
        _exit(71);
    }
}

void on_signal(int number) {
    write_place(number == SIGABRT  ? "aborted"
                : number == SIGFPE ? "integer division by zero"
                : number == SIGILL ? "illegal instruction"
                                   : "illegal address");
    _exit(70);
}

void watch_signals() {
    static bool watched = false;
    if (watched) {
        return;
    }
    watched = true;
    static char memory[64 * 1024];  // a fiber may have overrun its own
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGABRT, &action, nullptr);
#ifndef PRETUNED_ADDRESS  // AddressSanitizer tells more of these, and then aborts
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        sigaction(number, &action, nullptr);
    }
#endif
}

// --- Launching

unsigned launches;
long long clock_calls;

void set_threads(const unsigned* block) {
    blockDim = dim3(block[0], block[1], block[2]);
    thread_count = block[0] * block[1] * block[2];
    for (unsigned i = 0; i < thread_count; ++i) {
        threads[i].index.x = i % block[0];
        threads[i].index.y = i / block[0] % block[1];
        threads[i].index.z = i / block[0] / block[1];
        threads[i].number = i;
    }
}

void run_grid(const unsigned* grid, unsigned long long blocks) {
    gridDim = dim3(grid[0], grid[1], grid[2]);
    const unsigned long long total = 1ull * grid[0] * grid[1] * grid[2];
    for (unsigned long long i = 0; i < total && !failed(); ++i) {
        if (blocks != 0 && i == blocks && total > 2 * blocks) {
            i = total - blocks;
        }
        blockIdx.x = static_cast<unsigned>(i % grid[0]);
        blockIdx.y = static_cast<unsigned>(i / grid[0] % grid[1]);
        blockIdx.z = static_cast<unsigned>(i / grid[0] / grid[1]);
        spoil_shared();
        if (!run_block()) {
            tell_stuck();
        }
    }
}

}  // namespace pretuned

// --- What execution.h declares

extern "C" {

long long pretuned_clock() { return ++pretuned::clock_calls; }

unsigned pretuned_lane() { return pretuned::self()->number % pretuned::warp_lanes; }

int pretuned_barrier(int line, int predicate, int kind) { return pretuned::meet(line, predicate, kind); }

pretuned::Slot pretuned_collective(int operation, unsigned mask, pretuned::Slot value, int source, int line) {
    return pretuned::join(operation, mask, value, source, line);
}

void pretuned_yield() {
    pretuned::make_ready(pretuned::self());
    pretuned::suspend();
}

void pretuned_trap(const char* what, int line) {
    using namespace pretuned;
    tell("trap: thread %s ran into %s at kernel.cu:%d", static_cast<const char*>(Name(*self())), what, line);
    leave();
}
}

// --- What the process that launches calls

// Tells of a static `__shared__` variable; once for each, before the first launch.
EXPORT void pretuned_add_shared(unsigned char* begin, std::size_t bytes, const char* name) {
    using namespace pretuned;
    if (variable_count < max_variables) {
        Variable& variable = variables[variable_count++];
        variable.begin = begin;
        variable.bytes = bytes;
        std::snprintf(variable.name, sizeof variable.name, "%s", name);
    }
}

// Makes divergent barriers problems and, in a module compiled for it, looks for races.
EXPORT void pretuned_be_strict() {
    pretuned::strict = true;
#ifdef PRETUNED_RACES
    pretuned::begin_detecting();
#endif
}

// Runs a launch and returns what went wrong, or null; `code` then holds up to two addresses of code that it concerns.
// `grid` and `block` are x, y, z. With `blocks`, only so many of the first and of the last blocks run.
EXPORT const char* pretuned_launch(void (*kernel)(void**), void** values, const unsigned* grid, const unsigned* block,
                                   std::size_t shared_bytes, unsigned long long blocks, const void** code) {
    using namespace pretuned;
    watch_signals();
    body = kernel;
    arguments = values;
    problem[0] = '\0';
    addresses[0] = addresses[1] = nullptr;
    dynamic_bytes = shared_bytes;
    backwards = launches++ % 2 != 0;
    set_threads(block);
#ifdef PRETUNED_ADDRESS
    const std::size_t room = sizeof pretuned_dynamic_shared - shared_bytes;
    __asan_poison_memory_region(pretuned_dynamic_shared + shared_bytes, room);
#endif
    run_grid(grid, blocks);
#ifdef PRETUNED_ADDRESS
    __asan_unpoison_memory_region(pretuned_dynamic_shared + shared_bytes, room);
#endif
    if (!failed()) {
        return nullptr;
    }
    renew_fibers();
    const std::size_t length = std::strlen(problem);
    std::snprintf(problem + length, sizeof problem - length, " (block (%u, %u, %u))", blockIdx.x, blockIdx.y, blockIdx.z);
    code[0] = addresses[0];
    code[1] = addresses[1];
    return problem;
}

// Gives back what launches have taken; before the module is unloaded.
EXPORT void pretuned_close() {
    using namespace pretuned;
    while (fiber_count > 0) {
        destroy(all_fibers[--fiber_count]);
    }
    free_fibers = nullptr;
    std::free(cells);
}

#ifdef PRETUNED_ADDRESS
// Has accesses to `guard` bytes before and `behind` bytes after an array reported, until pretuned_unwatch().
EXPORT void pretuned_watch(char* begin, std::size_t bytes, std::size_t guard, std::size_t behind, const char* name) {
    using namespace pretuned;
    if (array_count < max_arrays) {
        Array& array = arrays[array_count++];
        array = {begin, bytes, guard, behind, {}};
        std::snprintf(array.name, sizeof array.name, "%s", name);
        __asan_poison_memory_region(begin - guard, guard);
        __asan_poison_memory_region(begin + bytes, behind);
    }
}

EXPORT void pretuned_unwatch() {
    using namespace pretuned;
    while (array_count > 0) {
        const Array& array = arrays[--array_count];
        __asan_unpoison_memory_region(array.begin - array.guard, array.guard);
        __asan_unpoison_memory_region(array.begin + array.bytes, array.behind);
    }
}
#endif
