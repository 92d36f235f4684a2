// Stands in for the CUDA header of this name: the upper half of a float, every operation rounded to it, to even at ties.
#pragma once
#include "cuda_fp16.h"

struct __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(__half value) : __nv_bfloat16(float(value)) {}
    __nv_bfloat16(float value) {
        unsigned all = cuda_on_cpu::bits<unsigned>(value);
        __x = value != value ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
    }
    // A float that keeps its last bit odd when digits were cut off rounds as the double itself would.
    template <class T, class = cuda_on_cpu::Number<T>> __nv_bfloat16(T number) {
        double value = double(number);
        float near = float(value);
        unsigned all = cuda_on_cpu::bits<unsigned>(near);
        if (double(near) != value && isfinite(near)) {
            if (fabs(double(near)) > fabs(value)) all--; // towards zero
            near = cuda_on_cpu::bits<float>(all | 1);
        }
        __x = __nv_bfloat16(near).__x;
    }
    operator float() const { return cuda_on_cpu::bits<float>(unsigned(__x) << 16); }
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
CUDA_ON_CPU_SHORT_FLOAT(__nv_bfloat16)

static inline float __bfloat162float(__nv_bfloat16 a) { return a; }
static inline __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
static inline __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
static inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x + b.x, a.y + b.y}; }
static inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x - b.x, a.y - b.y}; }
static inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x * b.x, a.y * b.y}; }
static inline __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x / b.x, a.y / b.y}; }
