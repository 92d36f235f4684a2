// What the parts of the stand-in know of each other.
#pragma once
#include "../include/cuda_on_cpu.h"
#include <cstdio>
#include <functional>
#include <setjmp.h>
#include <string>
#include <vector>

namespace cuda_on_cpu {

// Codes of the CUDA driver.
enum Error {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ASSERT = 710,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

using Handle = unsigned long long; // a device pointer, as the driver passes it

// ---- report.cpp
void complain(const char* format, ...) __attribute__((format(printf, 1, 2))); // one line to stderr
unsigned long setting(const char* name, unsigned long otherwise);             // a number in the environment
int sticky();                 // the error that spoiled the context, or 0
void spoil(int error);        // every later call returns it, as on a GPU
void forget_error();          // the context was destroyed
void write_report_at_exit();

// Counted for the process and for the calling thread. The order is that of `cuda_on_cpu_counts`.
enum Count {
    LAUNCHES,
    PRODUCTS,
    ALLOCATIONS,
    ALLOCATED_BYTES,
    TO_DEVICE,
    TO_DEVICE_BYTES,
    TO_HOST,
    TO_HOST_BYTES,
    ON_DEVICE,
    ON_DEVICE_BYTES,
    SYNCHRONISATIONS,
    FAULTS,
    COUNTS
};
void count(Count what, size_t by = 1);

// ---- memory.cpp
int allocate(size_t size, Handle* out);
int release(Handle start);
bool can_release(Handle start); // or says why not: a free that waits in a stream is refused when it is asked for
bool holds(Handle at, size_t size, const char* what); // says why not
bool is_device_memory(const void* at);
std::string describe(const void* address);
struct Held {
    size_t count, bytes;
    std::vector<size_t> sizes; // of the first few
};
Held held();

// ---- fault.cpp
// Work of the device on this host thread, and where to go when it goes wrong.
struct Escape {
    jmp_buf away;
    int error = SUCCESS;
    const void* address = nullptr; // of a fault
    bool writes = false;
};
extern thread_local Escape* escape;
void prepare_thread_for_faults();
int report_fault(const Escape& escape, const char* what);
[[noreturn]] void leave(int error); // what runs on the device

template <class Work> int on_device(const char* what, Work&& work) {
    prepare_thread_for_faults();
    Escape here;
    if (_setjmp(here.away) == 0) {
        escape = &here;
        work();
    }
    escape = nullptr;
    return here.error ? report_fault(here, what) : SUCCESS;
}

// ---- block.cpp
int run_grid(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic, void** arguments, unsigned long shuffle);
std::string where(); // which thread of which block runs, or nothing
std::string describe_of_block(const void* address); // shared memory or a stack of the block that runs, or nothing
void leave_fiber();  // told before `escape` is taken

// A small generator for orders.
struct Random {
    unsigned long state;
    unsigned long next() {
        unsigned long z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    size_t below(size_t n) { return next() % n; }
};

// ---- order.cpp
// Does `work` in the order of the stream: at once, or with CUDA_ON_CPU_SEED when something waits for it.
int submit(void* stream, std::function<int(unsigned long shuffle)> work);
bool is_ordered_later();
void synchronise_stream(void* stream);
void synchronise_device();

} // namespace cuda_on_cpu
