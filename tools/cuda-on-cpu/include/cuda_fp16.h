// Stands in for the CUDA header of this name: IEEE binary16 held as bits, every operation rounded to half. An operation
// is done in float, whose 24 digits are more than twice the 11 of half plus two: rounding twice is then rounding once.
#pragma once
#include "cuda_on_cpu.h"

namespace cuda_on_cpu {
template <class T> using Number = std::enable_if_t<std::is_arithmetic<T>::value>;
}

struct __half_raw {
    unsigned short x;
};
struct __half {
    unsigned short __x;
    __half() = default;
    __half(__half_raw raw) : __x(raw.x) {}
    // From double, so that whole numbers and doubles are rounded once.
    template <class T, class = cuda_on_cpu::Number<T>>
    __half(T value) : __x(cuda_on_cpu::bits<unsigned short>(_Float16(std::conditional_t<std::is_same<T, float>::value, float, double>(value)))) {}
    operator float() const { return float(cuda_on_cpu::bits<_Float16>(__x)); }
};
struct __half2 {
    __half x, y;
};
using half = __half;
using half2 = __half2;

#define CUDA_ON_CPU_SHORT_FLOAT(T)                                                              \
    static inline T operator+(T a, T b) { return T(float(a) + float(b)); }                      \
    static inline T operator-(T a, T b) { return T(float(a) - float(b)); }                      \
    static inline T operator*(T a, T b) { return T(float(a) * float(b)); }                      \
    static inline T operator/(T a, T b) { return T(float(a) / float(b)); }                      \
    static inline T operator-(T a) { return T(-float(a)); }                                     \
    static inline T& operator+=(T& a, T b) { return a = a + b; }                                \
    static inline T& operator-=(T& a, T b) { return a = a - b; }                                \
    static inline T& operator*=(T& a, T b) { return a = a * b; }                                \
    static inline T& operator/=(T& a, T b) { return a = a / b; }                                \
    static inline bool operator==(T a, T b) { return float(a) == float(b); }                    \
    static inline bool operator!=(T a, T b) { return float(a) != float(b); }                    \
    static inline bool operator<(T a, T b) { return float(a) < float(b); }                      \
    static inline bool operator>(T a, T b) { return float(a) > float(b); }                      \
    static inline bool operator<=(T a, T b) { return float(a) <= float(b); }                    \
    static inline bool operator>=(T a, T b) { return float(a) >= float(b); }                    \
    static inline bool __hisnan(T a) { return isnan(float(a)); }                                \
    static inline T hsqrt(T a) { return T(sqrtf(a)); }                                          \
    static inline T hcos(T a) { return T(cosf(a)); }                                            \
    static inline T hsin(T a) { return T(sinf(a)); }                                            \
    static inline T hlog(T a) { return T(logf(a)); }                                            \
    static inline T hexp(T a) { return T(expf(a)); }                                            \
    static inline T __habs(T a) { return T(fabsf(a)); }                                         \
    static inline T __hmax(T a, T b) { return T(fmaxf(a, b)); }                                 \
    static inline T __hmin(T a, T b) { return T(fminf(a, b)); }                                 \
    static inline T __hmax_nan(T a, T b) { return __hisnan(a) || __hisnan(b) ? T(NAN) : __hmax(a, b); } \
    static inline T __hmin_nan(T a, T b) { return __hisnan(a) || __hisnan(b) ? T(NAN) : __hmin(a, b); }
CUDA_ON_CPU_SHORT_FLOAT(__half)

static inline float __half2float(__half a) { return a; }
static inline __half __float2half(float a) { return __half(a); }
static inline __half __float2half_rn(float a) { return __half(a); }
static inline unsigned short __half_as_ushort(__half a) { return a.__x; }
static inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
