// <cooperative_groups.h>: blocks, tiles of up to a warp, and groups of lanes, on what barriers and shuffles already do.
//
// Clusters and asynchronous copies are for GPUs only, and refused before this is compiled. Blocks run one after the
// other, so the whole grid can wait only where it is one block, as a cooperative launch is here.
// coalesced_threads() is the calling lane alone, as __activemask() is, which CUDA allows.

#pragma once

#include "execution.h"

#pragma push_macro("std")  // see names.h
#undef std

namespace cooperative_groups {

namespace details {

inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
inline unsigned block_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
constexpr unsigned whole = 0xffffffffu;

// The lane of the `rank`-th thread of a mask.
inline int lane_of(unsigned mask, unsigned rank) {
    for (; rank > 0 && mask != 0; --rank) {
        mask &= mask - 1;
    }
    return mask == 0 ? -1 : __builtin_ctz(mask);
}

}  // namespace details

class thread_block {
  public:
    static void sync(PRETUNED_LINE) { pretuned::pretuned_barrier(line, 0, pretuned::plain); }
    static unsigned thread_rank() { return details::block_rank(); }
    static unsigned size() { return details::block_threads(); }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};

inline thread_block this_thread_block() { return {}; }

class grid_group {
  public:
    static bool is_valid() { return num_blocks() == 1; }
    static void sync(PRETUNED_LINE) {
        if (!is_valid()) {
            pretuned::pretuned_trap("grid.sync() in a launch that is not cooperative", line);
        }
        pretuned::pretuned_barrier(line, 0, pretuned::plain);
    }
    static unsigned long long thread_rank() { return block_rank() * details::block_threads() + details::block_rank(); }
    static unsigned long long size() { return num_blocks() * details::block_threads(); }
    static unsigned long long num_threads() { return size(); }
    static unsigned long long block_rank() {
        return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static unsigned long long num_blocks() {
        return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
    }
    static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 dim_blocks() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    static dim3 group_dim() { return dim_blocks(); }
};

inline grid_group this_grid() { return {}; }

// Lanes of a warp, by their mask.
class coalesced_group {
  public:
    explicit coalesced_group(unsigned mask) : mask_(mask) {}

    void sync(PRETUNED_LINE) const { __syncwarp(mask_, line); }
    unsigned size() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        return static_cast<unsigned>(__builtin_popcount(mask_ & ((1u << pretuned::pretuned_lane()) - 1)));
    }
    unsigned meta_group_rank() const { return 0; }
    unsigned meta_group_size() const { return 1; }

    template <typename Value>
    Value shfl(Value value, unsigned rank, PRETUNED_LINE) const {
        return pretuned::shuffle(mask_, value, details::lane_of(mask_, rank % size()), line);
    }
    template <typename Value>
    Value shfl_up(Value value, unsigned delta, PRETUNED_LINE) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank < delta ? rank : rank - delta, line);
    }
    template <typename Value>
    Value shfl_down(Value value, unsigned delta, PRETUNED_LINE) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank + delta >= size() ? rank : rank + delta, line);
    }
    int any(int predicate, PRETUNED_LINE) const { return __any_sync(mask_, predicate, line); }
    int all(int predicate, PRETUNED_LINE) const { return __all_sync(mask_, predicate, line); }
    unsigned ballot(int predicate, PRETUNED_LINE) const { return ranks(__ballot_sync(mask_, predicate, line)); }
    template <typename Value>
    unsigned match_any(Value value, PRETUNED_LINE) const {
        return ranks(__match_any_sync(mask_, value, line));
    }

    unsigned mask() const { return mask_; }

  private:
    unsigned ranks(unsigned lanes) const {  // bits by rank in place of bits by lane
        unsigned found = 0;
        for (unsigned rank = 0; rank < size(); ++rank) {
            found |= (lanes >> details::lane_of(mask_, rank) & 1) << rank;
        }
        return found;
    }

    unsigned mask_;
};

inline coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// `count` neighbouring lanes of a warp, a power of two.
template <unsigned count, typename Parent = void>
class thread_block_tile {
    static_assert(count >= 1 && count <= 32 && (count & (count - 1)) == 0,
                  "a tile has 1, 2, 4, 8, 16 or 32 threads here; larger ones are for GPUs only");

  public:
    explicit thread_block_tile(unsigned rank = 0, unsigned groups = 1) : meta_rank_(rank), meta_size_(groups) {}

    void sync(PRETUNED_LINE) const { __syncwarp(mask(), line); }
    static constexpr unsigned size() { return count; }
    static constexpr unsigned num_threads() { return count; }
    unsigned thread_rank() const { return pretuned::pretuned_lane() % count; }
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }

    template <typename Value>
    Value shfl(Value value, int rank, PRETUNED_LINE) const {
        return __shfl_sync(mask(), value, rank, int(count), line);
    }
    template <typename Value>
    Value shfl_up(Value value, unsigned delta, PRETUNED_LINE) const {
        return __shfl_up_sync(mask(), value, delta, int(count), line);
    }
    template <typename Value>
    Value shfl_down(Value value, unsigned delta, PRETUNED_LINE) const {
        return __shfl_down_sync(mask(), value, delta, int(count), line);
    }
    template <typename Value>
    Value shfl_xor(Value value, unsigned lanes, PRETUNED_LINE) const {
        return __shfl_xor_sync(mask(), value, int(lanes), int(count), line);
    }
    int any(int predicate, PRETUNED_LINE) const { return __any_sync(mask(), predicate, line); }
    int all(int predicate, PRETUNED_LINE) const { return __all_sync(mask(), predicate, line); }
    unsigned ballot(int predicate, PRETUNED_LINE) const { return __ballot_sync(mask(), predicate, line) >> first(); }
    template <typename Value>
    unsigned match_any(Value value, PRETUNED_LINE) const {
        return __match_any_sync(mask(), value, line) >> first();
    }
    template <typename Value>
    unsigned match_all(Value value, int& same, PRETUNED_LINE) const {
        return __match_all_sync(mask(), value, &same, line) >> first();
    }

    unsigned mask() const { return (details::whole >> (32 - count)) << first(); }

  private:
    static unsigned first() { return pretuned::pretuned_lane() & ~(count - 1); }

    unsigned meta_rank_, meta_size_;
};

template <unsigned count, typename Parent>
thread_block_tile<count, Parent> tiled_partition(const Parent& parent) {
    return thread_block_tile<count, Parent>(parent.thread_rank() / count, (parent.size() + count - 1) / count);
}

template <unsigned count, typename Parent>
coalesced_group binary_partition(const thread_block_tile<count, Parent>& tile, bool predicate, PRETUNED_LINE) {
    const unsigned lanes = __ballot_sync(tile.mask(), predicate, line);
    return coalesced_group(predicate ? lanes : tile.mask() & ~lanes);
}

template <unsigned count, typename Parent, typename Label>
coalesced_group labeled_partition(const thread_block_tile<count, Parent>& tile, Label label, PRETUNED_LINE) {
    return coalesced_group(__match_any_sync(tile.mask(), label, line));
}

template <typename Group>
void sync(const Group& group, PRETUNED_LINE) {
    group.sync(line);
}

template <typename Value>
struct plus {
    Value operator()(Value left, Value right) const { return left + right; }
};
template <typename Value>
struct less {  // as CUDA names it: the smaller of the two
    Value operator()(Value left, Value right) const { return right < left ? right : left; }
};
template <typename Value>
struct greater {
    Value operator()(Value left, Value right) const { return left < right ? right : left; }
};
template <typename Value>
struct bit_and {
    Value operator()(Value left, Value right) const { return left & right; }
};
template <typename Value>
struct bit_or {
    Value operator()(Value left, Value right) const { return left | right; }
};
template <typename Value>
struct bit_xor {
    Value operator()(Value left, Value right) const { return left ^ right; }
};

// All threads of the group get the result.
template <unsigned count, typename Parent, typename Value, typename Operation>
Value reduce(const thread_block_tile<count, Parent>& tile, Value value, Operation&& operation, PRETUNED_LINE) {
    for (unsigned lanes = count / 2; lanes > 0; lanes /= 2) {
        value = operation(value, tile.shfl_xor(value, lanes, line));
    }
    return value;
}

template <typename Value, typename Operation>
Value reduce(const coalesced_group& group, Value value, Operation&& operation, PRETUNED_LINE) {
    Value result = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.size(); ++rank) {
        result = operation(result, group.shfl(value, rank, line));
    }
    return result;
}

template <typename Group, typename Value, typename Operation>
Value inclusive_scan(const Group& group, Value value, Operation&& operation, PRETUNED_LINE) {
    Value result = group.shfl(value, 0, line);
    const unsigned own = group.thread_rank();
    for (unsigned rank = 1; rank < group.size(); ++rank) {
        const Value other = group.shfl(value, rank, line);
        result = rank <= own ? operation(result, other) : result;
    }
    return result;
}

template <typename Group, typename Value>
Value inclusive_scan(const Group& group, Value value, PRETUNED_LINE) {
    return inclusive_scan(group, value, plus<Value>{}, line);
}

template <typename Group, typename Value, typename Operation>
Value exclusive_scan(const Group& group, Value value, Operation&& operation, PRETUNED_LINE) {
    const Value before = group.shfl_up(inclusive_scan(group, value, operation, line), 1, line);
    return group.thread_rank() == 0 ? Value{} : before;
}

template <typename Group, typename Value>
Value exclusive_scan(const Group& group, Value value, PRETUNED_LINE) {
    return exclusive_scan(group, value, plus<Value>{}, line);
}

}  // namespace cooperative_groups

#pragma pop_macro("std")
