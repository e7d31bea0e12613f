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
#include <cstring>

#include <ucontext.h>
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

// --- Arrays of a call, so that a report can name them

struct Array {
    char* begin;
    std::size_t bytes, before, behind;  // so much around it is out of bounds
    std::size_t hole;                   // and nothing is mapped for so much more
    char name[64];
};

constexpr unsigned max_arrays = 64;
Array arrays[max_arrays];
unsigned array_count;

void print(const char* text, int length) {
    if (write(STDERR_FILENO, text, length) < 0) {
        _exit(71);
    }
}

// Names the array that lies nearest to an address, if the address is in what surrounds one.
void write_array(const char* address) {
    const Array* nearest = nullptr;
    std::size_t least = 0;
    for (unsigned i = 0; i < array_count; ++i) {
        const Array& array = arrays[i];
        const bool before = address < array.begin;
        const std::size_t distance = before ? array.begin - address : address - array.begin - array.bytes;
        if (!before && address < array.begin + array.bytes) {
            return;  // inside
        }
        if (distance <= (before ? array.before : array.behind) + array.hole && (!nearest || distance < least)) {
            nearest = &array;
            least = distance;
        }
    }
    if (nearest) {
        char text[160];
        print(text, std::snprintf(text, sizeof text, "\nkernel: array %zu bytes %s '%s'\n", least,
                                  address < nearest->begin ? "before" : "past the end of", nearest->name));
    }
}

// --- Signals: where a thread was when the process ended

void write_place(const char* what) {
    char text[256];
    int length = std::snprintf(text, sizeof text, "\nkernel: %s in block (%u, %u, %u)", what, blockIdx.x, blockIdx.y,
                               blockIdx.z);
    if (const Thread* thread = self()) {
        length += std::snprintf(text + length, sizeof text - length, ", thread %s",
                                static_cast<const char*>(Name(*thread)));
    }
    text[length++] = '\n';
    print(text, length);
}

// Whether an access that faulted was a write: bit 1 of x86's page fault code; other processors are not asked.
const char* access_of(const void* context) {
#if defined(__x86_64__)
    const auto code = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
    return code & 2 ? "\nkernel: access writes\n" : "\nkernel: access reads\n";
#else
    return "\nkernel: access touches\n";
#endif
}

void on_signal(int number, siginfo_t* info, void* context) {
#ifdef PRETUNED_ADDRESS
    write_array(static_cast<const char*>(__asan_get_report_address()));
#else
    if (number == SIGSEGV || number == SIGBUS) {
        const char* access = access_of(context);
        print(access, static_cast<int>(std::strlen(access)));
        write_array(static_cast<const char*>(info->si_addr));
    }
#endif
    write_place(number == SIGABRT  ? "aborted"
                : number == SIGFPE ? "integer division by zero"
                : number == SIGILL ? "illegal instruction"
                                   : "illegal address");
    _exit(70);
}

#ifdef PRETUNED_ADDRESS
constexpr int watched_signals[] = {SIGABRT};  // AddressSanitizer tells more of the others, and then aborts
#else
constexpr int watched_signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#endif
char signal_stack[64 * 1024];  // a fiber may have overrun its own

bool watches_signals() {
    stack_t stack = {};
    sigaltstack(nullptr, &stack);
    return stack.ss_sp == signal_stack;
}

// Takes the signals over from whatever module ran before.
void watch_signals() {
    if (watches_signals()) {
        return;
    }
    stack_t stack = {};
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof signal_stack;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    for (const int number : watched_signals) {
        sigaction(number, &action, nullptr);
    }
}

// Leaves neither handlers nor a stack behind in memory that goes with the module.
void unwatch_signals() {
    if (!watches_signals()) {
        return;
    }
    stack_t stack = {};
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    for (const int number : watched_signals) {
        std::signal(number, SIG_DFL);
    }
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
    unwatch_signals();
}

// Has reports name an array, and accesses to the bytes around it reported where AddressSanitizer is at hand, until
// pretuned_unwatch(). Beyond these bytes nothing is mapped for `hole` bytes.
EXPORT void pretuned_watch(char* begin, std::size_t bytes, std::size_t before, std::size_t behind, std::size_t hole,
                           const char* name) {
    using namespace pretuned;
    if (array_count < max_arrays) {
        Array& array = arrays[array_count++];
        array = {begin, bytes, before, behind, hole, {}};
        std::snprintf(array.name, sizeof array.name, "%s", name);
#ifdef PRETUNED_ADDRESS
        __asan_poison_memory_region(begin - before, before);
        __asan_poison_memory_region(begin + bytes, behind);
#endif
    }
}

EXPORT void pretuned_unwatch() {
    using namespace pretuned;
#ifdef PRETUNED_ADDRESS
    for (unsigned i = 0; i < array_count; ++i) {
        __asan_unpoison_memory_region(arrays[i].begin - arrays[i].before, arrays[i].before);
        __asan_unpoison_memory_region(arrays[i].begin + arrays[i].bytes, arrays[i].behind);
    }
#endif
    array_count = 0;
}
