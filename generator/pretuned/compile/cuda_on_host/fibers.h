// Fibers: stacks of their own, exchanged by loading another stack pointer, without a system call.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define PRETUNED_ADDRESS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PRETUNED_ADDRESS 1
#endif
#endif

#ifdef PRETUNED_ADDRESS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace pretuned {

struct Thread;

struct Fiber {
    void* stack_pointer;
    const char* stack;  // its lowest byte
    std::size_t stack_bytes;
    Thread* thread;
    Fiber* next_free;
    void* fake_stack;  // AddressSanitizer's
};

#ifdef PRETUNED_ADDRESS
constexpr std::size_t stack_bytes = 1024 * 1024;  // its frames are larger: room around every variable
#else
constexpr std::size_t stack_bytes = 256 * 1024;
#endif
constexpr std::size_t guard_bytes = 64 * 1024;

// Saves the registers that a callee keeps and the stack pointer, and goes on where `load` was saved.
extern "C" void pretuned_exchange(void** save, void* load);

inline void* stack_end(const Fiber* fiber) { return const_cast<char*>(fiber->stack) + fiber->stack_bytes; }

#if defined(__x86_64__)
asm(R"(
.text
.hidden pretuned_exchange
.globl pretuned_exchange
.type pretuned_exchange, @function
pretuned_exchange:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size pretuned_exchange, . - pretuned_exchange
)");
constexpr int saved_words = 6;

inline void prepare_stack(Fiber* fiber, void (*entry)()) {
    void** top = static_cast<void**>(stack_end(fiber));
    *--top = nullptr;  // where `entry` would return to; the stack has the alignment of a call then
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < saved_words; ++i) {
        *--top = nullptr;
    }
    fiber->stack_pointer = top;
}
#elif defined(__aarch64__)
asm(R"(
.text
.hidden pretuned_exchange
.globl pretuned_exchange
.type pretuned_exchange, %function
pretuned_exchange:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size pretuned_exchange, . - pretuned_exchange
)");

inline void prepare_stack(Fiber* fiber, void (*entry)()) {
    void** top = static_cast<void**>(stack_end(fiber)) - 20;
    std::memset(top, 0, 160);
    top[11] = reinterpret_cast<void*>(entry);  // x30, where `ret` goes
    fiber->stack_pointer = top;
}
#else
#error "kernels run on the host on x86-64 and 64-bit Arm; exchanging stacks is not written for this processor"
#endif


Fiber main_fiber;  // the one that launches
Fiber* current = &main_fiber;

// AddressSanitizer has to know which stack is in use; it tells the bounds of the one that was left.
inline void arrive([[maybe_unused]] Fiber* self, [[maybe_unused]] Fiber* from) {
#ifdef PRETUNED_ADDRESS
    const void* bottom;
    std::size_t bytes;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &bytes);
    if (from == &main_fiber) {
        main_fiber.stack = static_cast<const char*>(bottom);
        main_fiber.stack_bytes = bytes;
    }
#endif
}

Fiber* left = nullptr;  // by the last switch

inline void switch_to(Fiber* next) {
    Fiber* self = current;
    left = self;
    current = next;
#ifdef PRETUNED_ADDRESS
    __sanitizer_start_switch_fiber(&self->fake_stack, next->stack, next->stack_bytes);
#endif
    pretuned_exchange(&self->stack_pointer, next->stack_pointer);
    arrive(self, left);
}

// Lets a fiber begin anew with an empty stack.
inline void renew(Fiber* fiber, void (*entry)()) {
#ifdef PRETUNED_ADDRESS
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
#endif
    fiber->thread = nullptr;
    fiber->fake_stack = nullptr;
    prepare_stack(fiber, entry);
}

inline Fiber* make_fiber(void (*entry)(), unsigned number) {
    // The lowest part cannot be touched: a kernel that overruns its stack ends there.
    void* memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard_bytes, PROT_NONE) != 0) {
        std::fputs("no memory for the stacks of a block\n", stderr);
        std::abort();
    }
    Fiber* fiber = static_cast<Fiber*>(std::calloc(1, sizeof(Fiber)));
    if (fiber == nullptr) {
        std::abort();
    }
    fiber->stack = static_cast<char*>(memory) + guard_bytes;
    // Stacks that all began at the same offset in a page would compete for the same lines of the cache.
    fiber->stack_bytes = stack_bytes - number % 64 * 320;
    renew(fiber, entry);
    return fiber;
}

inline void destroy(Fiber* fiber) {
#ifdef PRETUNED_ADDRESS  // whatever is mapped there next must not inherit what frames have left
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
#endif
    munmap(const_cast<char*>(fiber->stack) - guard_bytes, guard_bytes + stack_bytes);
    std::free(fiber);
}

}  // namespace pretuned
