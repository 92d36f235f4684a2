// Stands in for the CUDA header of this name, only so far that kernels which name it compile.
#pragma once
#include "cuda_bf16.h"

enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8_storage_t = unsigned char;
struct __nv_fp8_e4m3 {
    __nv_fp8_storage_t __x;
    __nv_fp8_e4m3() = default;
    template <class T> explicit __nv_fp8_e4m3(T) { cuda_on_cpu_refuse("arithmetic in fp8"); }
    operator float() const { cuda_on_cpu_refuse("arithmetic in fp8"); }
};
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t, __nv_fp8_interpretation_t) {
    cuda_on_cpu_refuse("arithmetic in fp8");
}
