// What a CUDA kernel may say, said for a CPU. The stand-in compiler includes this before every source.
#pragma once
#include <algorithm>
#include <cassert>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace cuda_on_cpu {

struct Dim {
    unsigned x, y, z;
};

// Where the kernel that runs on this host thread is. Threads of a block are begun one after another by whoever has
// nothing else to do: as long as none of them waits, a block is a plain loop.
struct Now {
    Dim thread, block, block_dim, grid_dim;
    unsigned begun, threads; // of the block
    const unsigned* order;   // in which threads begin, or null for their own order
    bool waited;             // some thread of the block has waited for another
};

// One line of a module's table of kernels.
struct Kernel {
    const char* name;
    void (*run)(void** arguments); // begins threads of the block until all are begun
    unsigned count;
    const unsigned* sizes;   // of the arguments
    const bool* pointers;    // which of them are pointers, and so must point to device memory
};

} // namespace cuda_on_cpu

extern "C" {
extern thread_local cuda_on_cpu::Now cuda_on_cpu_now __attribute__((tls_model("initial-exec")));
void cuda_on_cpu_barrier(int line);
// Each lane of `lanes` gives a value and gets that of the lane `from`.
void cuda_on_cpu_exchange(unsigned lanes, const void* mine, void* theirs, unsigned size, unsigned from);
void cuda_on_cpu_thread_ended();
[[noreturn]] void cuda_on_cpu_assert(const char* what, const char* file, int line);
[[noreturn]] void cuda_on_cpu_refuse(const char* what); // ends the kernel
// Shared memory of the block. `key` names the declaration; null is the dynamic part.
void* cuda_on_cpu_shared(const void* key, size_t size);
}

#define threadIdx (cuda_on_cpu_now.thread)
#define blockIdx (cuda_on_cpu_now.block)
#define blockDim (cuda_on_cpu_now.block_dim)
#define gridDim (cuda_on_cpu_now.grid_dim)
#define warpSize 32
#define __syncthreads() cuda_on_cpu_barrier(__LINE__)
#undef assert
#define assert(condition) ((condition) ? (void)0 : cuda_on_cpu_assert(#condition, __FILE__, __LINE__))

namespace cuda_on_cpu {

static inline unsigned thread_index() {
    const Now& now = cuda_on_cpu_now;
    return now.thread.x + now.block_dim.x * (now.thread.y + now.block_dim.y * now.thread.z);
}
static inline int lane() { return thread_index() % 32; }

template <class T> static inline T exchange(unsigned lanes, T value, int from) {
    static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes");
    T theirs;
    cuda_on_cpu_exchange(lanes, &value, &theirs, sizeof(T), from);
    return theirs;
}

template <class To, class From> static inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To out;
    memcpy(&out, &value, sizeof out);
    return out;
}

// Several blocks of different launches may run at once, so atomics are real: an exchange is tried until nobody came
// between reading and writing.
template <class T, class F> static inline T atomically(T* at, F next) {
    static_assert(std::is_trivially_copyable<T>::value, "compared by its bits");
    T old;
    __atomic_load(at, &old, __ATOMIC_RELAXED);
    for (;;) {
        T wanted = next(old);
        if (__atomic_compare_exchange(at, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
    }
}

template <auto F> struct Entry;
template <class... A, void (*F)(A...)> struct Entry<F> {
    static constexpr unsigned sizes[] = {sizeof(A)..., 0};
    static constexpr bool pointers[] = {std::is_pointer<A>::value..., false};

    template <size_t... I> static void call(void** arguments, std::index_sequence<I...>) {
        F(*static_cast<std::remove_cv_t<A>*>(arguments[I])...);
    }
    static void run(void** arguments) {
        Now& now = cuda_on_cpu_now;
        while (now.begun < now.threads) {
            unsigned i = now.begun++;
            if (now.order) i = now.order[i];
            if (now.block_dim.y == 1 && now.block_dim.z == 1) // the usual case needs no division
                now.thread = {i, 0, 0};
            else
                now.thread = {i % now.block_dim.x, i / now.block_dim.x % now.block_dim.y,
                              i / now.block_dim.x / now.block_dim.y};
            call(arguments, std::index_sequence_for<A...>{});
            if (now.waited) cuda_on_cpu_thread_ended();
        }
    }
    static constexpr Kernel named(const char* name) { return {name, run, sizeof...(A), sizes, pointers}; }
};

} // namespace cuda_on_cpu

// ---- between the threads of a warp
static inline void __syncwarp(unsigned lanes = ~0u) { cuda_on_cpu::exchange(lanes, char(0), cuda_on_cpu::lane()); }
template <class T> static inline T __shfl_sync(unsigned lanes, T value, int from, int width = 32) {
    int lane = cuda_on_cpu::lane();
    return cuda_on_cpu::exchange(lanes, value, lane - lane % width + from % width);
}
template <class T> static inline T __shfl_xor_sync(unsigned lanes, T value, int flip, int width = 32) {
    int lane = cuda_on_cpu::lane(), from = lane ^ flip;
    return cuda_on_cpu::exchange(lanes, value, from / width > lane / width ? lane : from);
}
template <class T> static inline T __shfl_down_sync(unsigned lanes, T value, unsigned by, int width = 32) {
    int lane = cuda_on_cpu::lane();
    return cuda_on_cpu::exchange(lanes, value, lane % width + by < unsigned(width) ? lane + by : lane);
}
template <class T> static inline T __shfl_up_sync(unsigned lanes, T value, unsigned by, int width = 32) {
    int lane = cuda_on_cpu::lane();
    return cuda_on_cpu::exchange(lanes, value, unsigned(lane % width) >= by ? lane - by : lane);
}

// ---- atomics
template <class T, class U> static inline T atomicAdd(T* at, U value) {
    return cuda_on_cpu::atomically(at, [=](T old) { return T(old + T(value)); });
}
template <class T, class U> static inline T atomicMin(T* at, U value) {
    return cuda_on_cpu::atomically(at, [=](T old) { return T(value) < old ? T(value) : old; });
}
template <class T, class U> static inline T atomicMax(T* at, U value) {
    return cuda_on_cpu::atomically(at, [=](T old) { return old < T(value) ? T(value) : old; });
}
template <class T, class U> static inline T atomicExch(T* at, U value) {
    return cuda_on_cpu::atomically(at, [=](T) { return T(value); });
}
template <class T, class U> static inline T atomicCAS(T* at, U expected, U value) {
    return cuda_on_cpu::atomically(at, [=](T old) { return old == T(expected) ? T(value) : old; });
}

// ---- numbers
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class A, class B> static inline std::common_type_t<A, B> min(A a, B b) {
    using C = std::common_type_t<A, B>;
    return C(b) < C(a) ? C(b) : C(a);
}
template <class A, class B> static inline std::common_type_t<A, B> max(A a, B b) {
    using C = std::common_type_t<A, B>;
    return C(a) < C(b) ? C(b) : C(a);
}
static inline unsigned __float_as_uint(float v) { return cuda_on_cpu::bits<unsigned>(v); }
static inline int __float_as_int(float v) { return cuda_on_cpu::bits<int>(v); }
static inline float __uint_as_float(unsigned v) { return cuda_on_cpu::bits<float>(v); }
static inline float __int_as_float(int v) { return cuda_on_cpu::bits<float>(v); }
static inline long long __double_as_longlong(double v) { return cuda_on_cpu::bits<long long>(v); }
static inline double __longlong_as_double(long long v) { return cuda_on_cpu::bits<double>(v); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * float(M_SQRT1_2)); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
#define __expf(x) expf(x) // the C library has functions of these names
#define __logf(x) logf(x)
static inline float __fdividef(float a, float b) { return a / b; }
template <class T> static inline T __ldg(const T* at) { return *at; }
