// Shared memory: what a block finds in it, and a detector of races and of reads of what nobody wrote.
//
// A module for the detector is compiled with -fsanitize=thread but linked without its runtime: the compiler then calls
// __tsan_read4(address) and the like at every access, and the definitions below look at those to shared memory. Each
// byte has a cell with its last write and read. Two accesses by different threads, one of them a write and not both
// atomic, race unless a __syncthreads() or, between lanes of a warp, a __syncwarp() came between them; shuffles and votes
// order no memory (CUDA C++ Programming Guide, "Warp Shuffle Functions").

#pragma once

#include "warps.h"

extern "C" {
alignas(1024) unsigned char pretuned_dynamic_shared[256 * 1024];
}

namespace pretuned {

struct Variable {  // a static __shared__ one
    unsigned char* begin;
    std::size_t bytes;
    char name[64];
};

constexpr unsigned max_variables = 256;
constexpr unsigned char leftover = 0xff;  // what an uninitialised byte holds

Variable variables[max_variables];
unsigned variable_count;
std::size_t dynamic_bytes;  // of this launch

inline void spoil_shared() {
    for (unsigned i = 0; i < variable_count; ++i) {
        std::memset(variables[i].begin, leftover, variables[i].bytes);
    }
    std::memset(pretuned_dynamic_shared, leftover, dynamic_bytes);
}

struct Access {
    unsigned long long epoch;
    unsigned long long warp_epoch;
    const void* code;
    unsigned short thread;
    bool atomic;
    bool by_several;        // lanes of the warp, in reads
    bool by_several_warps;
};

struct Cell {
    Access write, read;
};

Cell* cells;  // of dynamic shared memory, then of the variables in turn
bool detecting;

struct Place {
    const char* variable;
    std::size_t offset;
    Cell* cell;  // null: not in shared memory
    bool dynamic;
};

inline Place place_of(const unsigned char* byte) {
    constexpr std::size_t room = sizeof pretuned_dynamic_shared;
    if (byte >= pretuned_dynamic_shared && byte < pretuned_dynamic_shared + room) {
        const std::size_t offset = byte - pretuned_dynamic_shared;
        return {"dynamic shared memory", offset, cells + offset, true};
    }
    Cell* first = cells + room;
    for (unsigned i = 0; i < variable_count; ++i) {
        const Variable& variable = variables[i];
        if (byte >= variable.begin && byte < variable.begin + variable.bytes) {
            const std::size_t offset = byte - variable.begin;
            return {variable.name, offset, first + offset, false};
        }
        first += variable.bytes;
    }
    return {};
}

inline bool in_this_block(const Access& access) { return access.epoch >= block_epoch; }

inline bool ordered(const Access& earlier, const Access& now) {
    if (earlier.epoch != now.epoch || (earlier.atomic && now.atomic)) {
        return true;
    }
    if (earlier.thread == now.thread && !earlier.by_several && !earlier.by_several_warps) {
        return true;
    }
    const bool same_warp = earlier.thread / warp_lanes == now.thread / warp_lanes && !earlier.by_several_warps;
    return same_warp && earlier.warp_epoch != now.warp_epoch;
}

// What a later write has to be ordered with: all reads since the last barrier, told as one.
inline Access merged(const Access& earlier, Access now) {
    if (earlier.epoch == now.epoch) {
        const bool same_warp = earlier.thread / warp_lanes == now.thread / warp_lanes;
        now.by_several = earlier.by_several || earlier.thread != now.thread;
        now.by_several_warps = earlier.by_several_warps || !same_warp;
        now.atomic = earlier.atomic && now.atomic;
    }
    return now;
}

inline void tell_race(const Place& place, const Access& earlier, bool wrote, const Access& now, bool writes) {
    tell("race: thread %s %s byte %zu of %s, which thread %s %s, and no barrier comes between",
         static_cast<const char*>(Name(threads[now.thread])), writes ? "writes" : "reads", place.offset, place.variable,
         static_cast<const char*>(Name(threads[earlier.thread])), wrote ? "wrote" : "read");
    addresses[0] = now.code;
    addresses[1] = earlier.code;
}

// A read of what nobody has written yet. It is told where the epoch ends, unless a later write shows a race.
struct {
    bool held;
    char text[256];
    const void* code;
} suspicion;

inline void suspect(const Place& place, const Access& now) {
    if (!suspicion.held) {
        suspicion.held = true;
        suspicion.code = now.code;
        std::snprintf(suspicion.text, sizeof suspicion.text,
                      "uninitialised: thread %s reads byte %zu of %s, which nothing in this block has written",
                      static_cast<const char*>(Name(threads[now.thread])), place.offset, place.variable);
    }
}

inline void end_epoch() {
    if (suspicion.held && !failed()) {
        tell("%s", suspicion.text);
        addresses[0] = suspicion.code;
    }
    suspicion.held = false;
}

inline void examine_byte(const Place& place, const Access& now, bool writes) {
    Cell& cell = *place.cell;
    if (place.dynamic && place.offset >= dynamic_bytes) {
        tell("out of bounds: thread %s %s byte %zu of dynamic shared memory, of which the launch has %zu",
             static_cast<const char*>(Name(threads[now.thread])), writes ? "writes" : "reads", place.offset, dynamic_bytes);
        addresses[0] = now.code;
    } else if (in_this_block(cell.write) && !ordered(cell.write, now)) {
        tell_race(place, cell.write, true, now, writes);
    } else if (writes && in_this_block(cell.read) && !ordered(cell.read, now)) {
        tell_race(place, cell.read, false, now, writes);
    } else if (writes) {
        cell.write = now;
    } else {
        if (!in_this_block(cell.write)) {
            suspect(place, now);
        }
        cell.read = merged(cell.read, now);
    }
}

inline void examine(const void* address, std::size_t bytes, bool writes, bool atomic, const void* code) {
    const Thread* thread = self();
    if (!detecting || thread == nullptr || failed()) {
        return;
    }
    const Access now = {epoch, warps[thread->number / warp_lanes].epoch, code,
                        static_cast<unsigned short>(thread->number), atomic, false, false};
    const unsigned char* first = static_cast<const unsigned char*>(address);
    for (std::size_t i = 0; i < bytes && !failed(); ++i) {
        const Place place = place_of(first + i);
        if (place.cell == nullptr) {
            return;
        }
        examine_byte(place, now, writes);
    }
    if (failed()) {
        leave();
    }
}

inline void begin_detecting() {
    std::size_t bytes = sizeof pretuned_dynamic_shared;
    for (unsigned i = 0; i < variable_count; ++i) {
        bytes += variables[i].bytes;
    }
    cells = static_cast<Cell*>(std::calloc(bytes, sizeof(Cell)));
    detecting = cells != nullptr;
}

}  // namespace pretuned

#ifdef PRETUNED_RACES
extern "C" {

// What atomic functions do between these is one access. They are calls, which the compiler moves no access across.
static int atomic_depth = 0;
void pretuned_begin_atomic() { ++atomic_depth; }
void pretuned_end_atomic() { --atomic_depth; }

#define PRETUNED_ACCESS(name, bytes, writes)                                                             \
    void __tsan_##name(void* address) {                                                                  \
        pretuned::examine(address, bytes, writes, atomic_depth > 0, __builtin_return_address(0)); \
    }
#define PRETUNED_ACCESSES(bytes)                       \
    PRETUNED_ACCESS(read##bytes, bytes, false)         \
    PRETUNED_ACCESS(write##bytes, bytes, true)         \
    PRETUNED_ACCESS(volatile_read##bytes, bytes, false) \
    PRETUNED_ACCESS(volatile_write##bytes, bytes, true) \
    PRETUNED_ACCESS(unaligned_read##bytes, bytes, false) \
    PRETUNED_ACCESS(unaligned_write##bytes, bytes, true)
PRETUNED_ACCESSES(1)
PRETUNED_ACCESSES(2)
PRETUNED_ACCESSES(4)
PRETUNED_ACCESSES(8)
PRETUNED_ACCESSES(16)

void __tsan_read_range(void* address, std::size_t bytes) {
    pretuned::examine(address, bytes, false, atomic_depth > 0, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
    pretuned::examine(address, bytes, true, atomic_depth > 0, __builtin_return_address(0));
}
void* __tsan_memset(void* target, int value, std::size_t bytes) {
    pretuned::examine(target, bytes, true, false, __builtin_return_address(0));
    return std::memset(target, value, bytes);
}
void* __tsan_memcpy(void* target, const void* source, std::size_t bytes) {
    pretuned::examine(source, bytes, false, false, __builtin_return_address(0));
    pretuned::examine(target, bytes, true, false, __builtin_return_address(0));
    return std::memcpy(target, source, bytes);
}
void* __tsan_memmove(void* target, const void* source, std::size_t bytes) {
    pretuned::examine(source, bytes, false, false, __builtin_return_address(0));
    pretuned::examine(target, bytes, true, false, __builtin_return_address(0));
    return std::memmove(target, source, bytes);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
#endif
