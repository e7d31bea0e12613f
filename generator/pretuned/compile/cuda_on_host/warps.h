// What the lanes of a warp do together: they come one after another, and the last computes what each gets.
//
// Lanes that have left the kernel, or that the block never had, are not waited for: CUDA asks for all lanes of the mask
// that have not exited.

#pragma once

#include "block.h"

namespace pretuned {

enum Operation : int {  // as in execution.h
    synchronise,
    shuffle,
    ballot,
    any,
    all,
    unite,
    match_any,
    match_all,
    add,
    min_signed,
    max_signed,
    min_unsigned,
    max_unsigned,
    bit_and,
    bit_or,
    bit_xor,
};

const char* const operation_names[] = {
    "__syncwarp",         "__shfl_sync",       "__ballot_sync",     "__any_sync",
    "__all_sync",         "__uni_sync",        "__match_any_sync",  "__match_all_sync",
    "__reduce_add_sync",  "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync",
    "__reduce_max_sync",  "__reduce_and_sync", "__reduce_or_sync",  "__reduce_xor_sync",
};

constexpr unsigned char undefined = 0xff;  // what a lane gets from one outside the mask: a NaN in every floating type

inline unsigned word(const Thread& thread) { return static_cast<unsigned>(thread.given.words[0]); }

inline void answer(Thread& thread, unsigned value) { thread.taken.words[0] = value; }

inline unsigned combined(int operation, unsigned left, unsigned right) {
    const bool less = operation == min_signed || operation == max_signed
                          ? static_cast<int>(left) < static_cast<int>(right)
                          : left < right;
    switch (operation) {
        case add: return left + right;
        case min_signed:
        case min_unsigned: return less ? left : right;
        case max_signed:
        case max_unsigned: return less ? right : left;
        case bit_and: return left & right;
        case bit_or: return left | right;
        default: return left ^ right;
    }
}

inline unsigned lowest(unsigned lanes) { return static_cast<unsigned>(__builtin_ctz(lanes)); }

inline unsigned equal_lanes(const Thread* lanes, unsigned mask, const Thread& lane) {
    unsigned found = 0;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        const unsigned other = lowest(left);
        found |= std::memcmp(&lanes[other].given, &lane.given, sizeof(Slot)) == 0 ? 1u << other : 0;
    }
    return found;
}

inline void exchange(Thread* lanes, unsigned mask, Thread& lane) {
    const unsigned source = static_cast<unsigned>(lane.source);
    if (source < warp_lanes && (mask >> source & 1) != 0) {
        lane.taken = lanes[source].given;
    } else {
        std::memset(&lane.taken, undefined, sizeof(Slot));
    }
}

// All lanes that take part have come: gives each its result.
inline void complete(Thread* lanes, unsigned mask, int operation) {
    unsigned votes = 0;
    unsigned total = word(lanes[lowest(mask)]);
    if (operation >= ballot) {
        for (unsigned left = mask; left != 0; left &= left - 1) {
            const unsigned lane = lowest(left);
            votes |= word(lanes[lane]) != 0 ? 1u << lane : 0;
            total = left == mask ? total : combined(operation, total, word(lanes[lane]));
        }
    }
    for (unsigned left = mask; left != 0; left &= left - 1) {
        Thread& lane = lanes[lowest(left)];
        switch (operation) {
            case synchronise: break;
            case shuffle: exchange(lanes, mask, lane); break;
            case ballot: answer(lane, votes); break;
            case any: answer(lane, votes != 0); break;
            case all: answer(lane, votes == mask); break;
            case unite: answer(lane, votes == mask || votes == 0); break;
            case match_any: answer(lane, equal_lanes(lanes, mask, lane)); break;
            case match_all: answer(lane, equal_lanes(lanes, mask, lane) == mask ? mask : 0); break;
            default: answer(lane, total); break;
        }
    }
}

// Lets the lanes of `mask` that live go on, if all of them have come with the same operation and mask.
inline void assemble(unsigned number, unsigned mask, int operation) {
    Warp& warp = warps[number];
    const unsigned wanted = mask & warp.living;
    if ((wanted & ~warp.waiting) != 0) {
        return;
    }
    Thread* lanes = &threads[number * warp_lanes];
    for (unsigned left = wanted; left != 0; left &= left - 1) {
        const Thread& lane = lanes[lowest(left)];
        if (lane.mask != mask || lane.operation != operation) {
            return;
        }
    }
    warp.waiting &= ~wanted;
    warp.epoch += operation == synchronise;
    complete(lanes, wanted, operation);
    for (unsigned left = wanted; left != 0; left &= left - 1) {
        make_ready(&lanes[lowest(left)]);
    }
}

inline void leave_warp(const Thread& thread) {
    const unsigned number = thread.number / warp_lanes;
    Warp& warp = warps[number];
    warp.living &= ~(1u << thread.number % warp_lanes);
    for (unsigned left = warp.waiting; left != 0; left &= left - 1) {
        const Thread& lane = threads[number * warp_lanes + lowest(left)];
        if (lane.state == State::in_warp) {  // it may have been let go with one before it
            assemble(number, lane.mask, lane.operation);
        }
    }
}

inline Slot join(int operation, unsigned mask, Slot value, int source, int line) {
    Thread& thread = *self();
    const unsigned number = thread.number / warp_lanes, lane = thread.number % warp_lanes;
    if ((mask >> lane & 1) == 0) {
        tell("wrong mask: thread %s calls %s(0x%08x) at kernel.cu:%d, but its own lane, %u, is not in the mask",
             static_cast<const char*>(Name(thread)), operation_names[operation], mask, line, lane);
        leave();
    }
    thread.line = line;
    thread.operation = operation;
    thread.mask = mask;
    thread.source = source;
    thread.given = value;
    thread.state = State::in_warp;
    warps[number].waiting |= 1u << lane;
    assemble(number, mask, operation);
    suspend();
    return thread.taken;
}

// Nobody can go on: a lane waits for another that waits elsewhere. (A barrier alone is always reached by all in the end.)
inline void tell_stuck() {
    const Thread* lane = nullptr;
    for (unsigned i = 0; i < thread_count && lane == nullptr; ++i) {
        lane = threads[i].state == State::in_warp ? &threads[i] : nullptr;
    }
    if (lane == nullptr) {
        tell("stuck: no thread of the block can go on");
        return;
    }
    const char* const name = operation_names[lane->operation];
    const unsigned warp = lane->number / warp_lanes;
    for (unsigned i = 0; i < warp_lanes; ++i) {
        const Thread& other = threads[warp * warp_lanes + i];
        if ((lane->mask & warps[warp].living & 1u << i) == 0 || &other == lane) {
            continue;
        }
        if (other.state == State::at_barrier) {
            tell("divergent warp: thread %s waits in %s(0x%08x) at kernel.cu:%d for thread %s, which waits in "
                 "__syncthreads() at kernel.cu:%d",
                 static_cast<const char*>(Name(*lane)), name, lane->mask, lane->line,
                 static_cast<const char*>(Name(other)), other.line);
            return;
        }
        if (other.mask != lane->mask || other.operation != lane->operation) {
            tell("wrong mask: thread %s waits in %s(0x%08x) at kernel.cu:%d for thread %s, which waits in %s(0x%08x) at "
                 "kernel.cu:%d",
                 static_cast<const char*>(Name(*lane)), name, lane->mask, lane->line,
                 static_cast<const char*>(Name(other)), operation_names[other.operation], other.mask, other.line);
            return;
        }
    }
    tell("stuck: thread %s waits in %s(0x%08x) at kernel.cu:%d", static_cast<const char*>(Name(*lane)), name, lane->mask,
         lane->line);
}

}  // namespace pretuned
