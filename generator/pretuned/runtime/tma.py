"""The header `<pretuned/tma.h>`: CUtensorMap, and the instructions by which kernels copy the boxes of tensor maps.

NVRTC knows none of them, and CUtensorMap stands in cuda.h, which few machines have that only run kernels. The PTX is
that of the PTX ISA: mbarrier, cp.async.bulk.tensor, fence.proxy.async.
"""

from __future__ import annotations

_TYPES = """\
#pragma once
#ifndef __cuda_cuda_h__  // which has it as well: include cuda.h first
typedef struct CUtensorMap_st {
    alignas(64) unsigned long long opaque[16];
} CUtensorMap;
#endif
namespace tma {
typedef unsigned long long Barrier;  // an mbarrier, in shared memory
__device__ inline unsigned address_of(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
// By one thread, before __syncthreads(): a barrier of so many arrivals, which copies may complete.
__device__ inline void init(Barrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)), "r"(arrivals) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
}
// Arrive, and have the phase end no sooner than copies have brought so many bytes.
__device__ inline void expect(Barrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)), "r"(bytes)
                 : "memory");
}
// Whether the phase of that parity has ended: 0 is the first phase's, 1 the second's, and so on in turn.
__device__ inline bool ended(Barrier* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(address_of(barrier)), "r"(parity)
                 : "memory");
    return done;
}
__device__ inline void wait(Barrier* barrier, unsigned parity) {
    while (!ended(barrier, parity)) {
    }
}
// What threads wrote to shared memory is there for the copies that come; each writing thread, before __syncthreads().
__device__ inline void fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void prefetch(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// The stores before it are a group.
__device__ inline void commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All but so many groups of the thread have read shared memory, which may be written again.
template <int groups = 0>
__device__ inline void wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(groups) : "memory");
}
// All but so many groups of the thread are in memory.
template <int groups = 0>
__device__ inline void wait_stored() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(groups) : "memory");
}
// A box at an index, outermost first as in the spec: load(tile, &x_map, &barrier, row, column). The last one begins at
// a multiple of 16 bytes: anything else is an illegal instruction.
"""
_RANKED = """\
__device__ inline void load(void* to, const CUtensorMap* map, Barrier* barrier, {parameters}) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {{{loaded}}}], [%2];" ::"r"(address_of(to)), "l"(map), "r"(address_of(barrier)), {inputs}
                 : "memory");
}}
__device__ inline void store(const CUtensorMap* map, const void* from, {parameters}) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{stored}}}], [%1];" ::"l"(map),
                 "r"(address_of(from)), {inputs}
                 : "memory");
}}
"""


def _of_rank(rank: int) -> str:
    axes = [f"i{axis}" for axis in range(rank)]
    return _RANKED.format(
        rank=rank,
        parameters=", ".join(f"int {axis}" for axis in axes),
        inputs=", ".join(f'"r"({axis})' for axis in reversed(axes)),
        loaded=", ".join(f"%{3 + place}" for place in range(rank)),
        stored=", ".join(f"%{2 + place}" for place in range(rank)),
    )


NAME = "pretuned/tma.h"
HEADER = f"{_TYPES}{''.join(map(_of_rank, range(1, 6)))}}}\n"
