// Kernels that are right, and kernels with one fault each, which the stand-in must find.
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include <cuda_runtime.h>
#include <stdint.h>

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// ---- right
extern "C" __global__ void copy(const float* in, float* out, unsigned n) {
    if (INDEX < n) out[INDEX] = in[INDEX];
}
extern "C" __global__ void add_one(float* out, unsigned n) {
    if (INDEX < n) out[INDEX] += 1;
}
extern "C" __global__ void twice(float* out, unsigned n) {
    if (INDEX < n) out[INDEX] *= 2;
}

template <class T> __device__ T sum_of_block(T mine) {
    __shared__ T parts[1024];
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    parts[thread] = mine;
    for (unsigned width = threads; width > 1;) {
        unsigned half = (width + 1) / 2;
        __syncthreads();
        if (thread + half < width) parts[thread] += parts[thread + half];
        width = half;
    }
    __syncthreads();
    return parts[0];
}
// Two instances of one declaration, of different types, in one kernel.
extern "C" __global__ void sums(const float* in, float* floats, uint64_t* wholes) {
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    float sum = sum_of_block<float>(in[block * threads + thread]);
    uint64_t whole = sum_of_block<uint64_t>(block * threads + thread);
    floats[block * threads + thread] = sum;
    wholes[block * threads + thread] = whole;
}
extern "C" __global__ void warp_sums(const float* in, float* all, float* before, float* first) {
    unsigned i = INDEX, lane = threadIdx.x % 32, lanes = min(32u, blockDim.x - threadIdx.x / 32 * 32);
    unsigned mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
    float sum = in[i], prefix = in[i];
    for (unsigned flip = 16; flip; flip /= 2) {
        float other = __shfl_xor_sync(mask, sum, flip);
        if (lanes == 32) sum += other; // of a warp that is not full, some lanes are nobody's
    }
    for (unsigned by = 1; by < 32; by *= 2) {
        float other = __shfl_up_sync(mask, prefix, by);
        if (lane >= by) prefix += other;
    }
    all[i] = sum;
    before[i] = prefix;
    first[i] = __shfl_sync(mask, in[i], 0);
    __syncwarp(mask);
}
// Half of a warp exchanges while the other half has gone on.
extern "C" __global__ void half_warp(float* out) {
    float value = threadIdx.x;
    if (threadIdx.x < 16) value = __shfl_xor_sync(0xffffu, value, 1);
    __syncthreads();
    out[threadIdx.x] = __shfl_down_sync(~0u, value, 1);
}
extern "C" __global__ void reversed(const float* in, float* out) {
    extern __shared__ float row[];
    row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void atomics(unsigned* counter, float* sum, int* least, int* most, double* total) {
    atomicAdd(counter, 1u);
    atomicAdd(sum, 1.0f);
    atomicAdd(total, 0.5);
    atomicMin(least, -int(INDEX));
    atomicMax(most, int(INDEX));
}
#define SHORT_FLOATS(NAME, T)                                                                           \
    extern "C" __global__ void NAME(const T* a, const T* b, const float* wide, const double* wider, T* out, unsigned n) { \
        unsigned i = INDEX;                                                                             \
        if (i >= n) return;                                                                             \
        T* row = out + i * 8;                                                                           \
        row[0] = a[i] + b[i], row[1] = a[i] - b[i], row[2] = a[i] * b[i], row[3] = a[i] / b[i];         \
        row[4] = T(wide[i]), row[5] = T(wider[i]), row[6] = hsqrt(a[i]), row[7] = T(float(a[i]));       \
    }
SHORT_FLOATS(halves, __half)
SHORT_FLOATS(brains, __nv_bfloat16)

// ---- with a fault
extern "C" __global__ void reads_past(const float* in, float* out, unsigned n) {
    if (INDEX < n) out[INDEX] = in[INDEX + 1];
}
extern "C" __global__ void writes_past(float* out, unsigned n) {
    if (INDEX <= n) out[INDEX] = 1;
}
extern "C" __global__ void writes_before(float* out) {
    if (INDEX == 0) out[-1] = 1;
}
extern "C" __global__ void reads_before(const float* in, float* out) { out[INDEX] = in[int(INDEX) - 1]; }
// Blocks have no order: only one that comes after the first reads what that wrote.
extern "C" __global__ void reads_the_first_block(float* out) { out[blockIdx.x] = blockIdx.x ? out[0] : 1; }
extern "C" __global__ void reversed_without_waiting(const float* in, float* out) {
    __shared__ float row[1024];
    row[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void leaves_before_barrier(float* out) {
    if (threadIdx.x == 5) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void two_barriers(float* out) {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads(), out[threadIdx.x] = 1;
}
extern "C" __global__ void waits_for_nobody(float* out) {
    if (threadIdx.x == 3) out[0] = __shfl_sync(~0u, 1.0f, 0);
    else __syncthreads();
}
extern "C" __global__ void too_much_shared(float* out) {
    __shared__ float one[8192];
    __shared__ float other[8192];
    one[threadIdx.x] = other[threadIdx.x] = 1;
    out[threadIdx.x] = one[threadIdx.x] + other[threadIdx.x];
}
extern "C" __global__ void past_shared(float* out) {
    __shared__ float row[32];
    row[threadIdx.x + 1] = 1;
    out[threadIdx.x] = row[threadIdx.x + 1];
}
extern "C" __global__ void asserts(const float* in) { assert(in[INDEX] < 7); }
__device__ int deeper(int n, volatile char* before) {
    volatile char here[4096];
    here[n % 4096] = *before;
    return n ? deeper(n - 1, here) + here[0] : 0;
}
extern "C" __global__ void too_deep(float* out, int n) {
    char start = 0;
    out[0] = deeper(n, &start);
}
