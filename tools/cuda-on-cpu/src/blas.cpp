// Stands in for libcublas: matrix products, column by column as cuBLAS has them.
#include "stand_in.h"
#include "../include/cuda_bf16.h"

using namespace cuda_on_cpu;

namespace {

enum Status { FINE = 0, NOT_INITIALIZED_BLAS = 1, INVALID = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED_BLAS = 15 };
enum Type { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum { COMPUTE_16F = 64, COMPUTE_16F_PEDANTIC = 65 };

struct BlasHandle {
    void* stream = nullptr;
};

#if defined(__AVX512F__)
const size_t VECTOR_BYTES = 64;
#elif defined(__AVX__)
const size_t VECTOR_BYTES = 32;
#else
const size_t VECTOR_BYTES = 16;
#endif

// A tile of the product, held in registers: two vectors of rows, six columns.
template <class A> struct Tile {
    typedef A Vector __attribute__((vector_size(VECTOR_BYTES)));
    static constexpr size_t LANES = VECTOR_BYTES / sizeof(A), ROWS = 2 * LANES, COLUMNS = 6;

    // `a` holds ROWS values for each of `depth` steps, `b` COLUMNS.
    static void multiply(size_t depth, const A* a, const A* b, A* out) {
        Vector sum[COLUMNS][2] = {};
        for (size_t l = 0; l < depth; l++, a += ROWS, b += COLUMNS) {
            Vector upper, lower;
            memcpy(&upper, a, sizeof upper);
            memcpy(&lower, a + LANES, sizeof lower);
            for (size_t j = 0; j < COLUMNS; j++) {
                sum[j][0] += upper * b[j];
                sum[j][1] += lower * b[j];
            }
        }
        memcpy(out, sum, sizeof sum);
    }
};

// Panels of `width` rows of op(X), of which there are `rows`, step by step of `depth`; what is missing is zero.
template <class T, class A>
void pack(std::vector<A>& into, size_t width, size_t rows, size_t depth, const T* x, size_t row_stride, size_t step_stride) {
    size_t panels = (rows + width - 1) / width;
    into.resize(panels * width * depth);
    for (size_t panel = 0; panel < panels; panel++) {
        A* to = into.data() + panel * width * depth;
        const T* from = x + panel * width * row_stride;
        size_t filled = std::min(width, rows - panel * width);
        if (filled < width) std::fill_n(to, width * depth, A(0));
        if (row_stride == 1) { // the inner loop runs along what is contiguous
            for (size_t l = 0; l < depth; l++)
                for (size_t i = 0; i < filled; i++) to[l * width + i] = A(from[i + l * step_stride]);
        } else {
            for (size_t i = 0; i < filled; i++)
                for (size_t l = 0; l < depth; l++) to[l * width + i] = A(from[i * row_stride + l * step_stride]);
        }
    }
}

template <class A> struct Product {
    bool ta, tb;
    size_t m, n, k;
    A alpha, beta;
    size_t lda, ldb, ldc;
};

// C = alpha op(A) op(B) + beta C. What is zero times is not read, as in cuBLAS.
template <class T, class A> void multiply(const Product<A>& p, const T* a, const T* b, T* c) {
    using Part = Tile<A>;
    static thread_local std::vector<A> left, right;
    size_t depth = p.alpha == A(0) ? 0 : p.k;
    pack(left, Part::ROWS, p.m, depth, a, p.ta ? p.lda : 1, p.ta ? 1 : p.lda);
    pack(right, Part::COLUMNS, p.n, depth, b, p.tb ? 1 : p.ldb, p.tb ? p.ldb : 1);
    alignas(64) A tile[Part::ROWS * Part::COLUMNS];
    for (size_t j0 = 0; j0 < p.n; j0 += Part::COLUMNS)
        for (size_t i0 = 0; i0 < p.m; i0 += Part::ROWS) {
            Part::multiply(depth, left.data() + i0 * depth, right.data() + j0 * depth, tile);
            for (size_t j = j0; j < std::min(p.n, j0 + Part::COLUMNS); j++)
                for (size_t i = i0; i < std::min(p.m, i0 + Part::ROWS); i++) {
                    A sum = p.alpha * tile[(j - j0) * Part::ROWS + i - i0];
                    T& out = c[j * p.ldc + i];
                    out = T(p.beta == A(0) ? sum : sum + p.beta * A(out));
                }
        }
}

struct Call {
    const char* name;
    BlasHandle* handle;
    int ta, tb, m, n, k;
    const void* a;
    int lda;
    long long stride_a;
    const void* b;
    int ldb;
    long long stride_b;
    void* c;
    int ldc;
    long long stride_c;
    int batch;
};

template <class T, class A> int run(const Call& call, A alpha, A beta) {
    if (!call.handle) return NOT_INITIALIZED_BLAS;
    bool ta = call.ta, tb = call.tb;
    if (call.ta < 0 || call.ta > 2 || call.tb < 0 || call.tb > 2 || call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0 ||
        call.lda < std::max(1, ta ? call.k : call.m) || call.ldb < std::max(1, tb ? call.n : call.k) || call.ldc < std::max(1, call.m)) {
        complain("%s: m %d, n %d, k %d, leading dimensions %d, %d, %d, %d of them: not a product", call.name, call.m, call.n, call.k,
                 call.lda, call.ldb, call.ldc, call.batch);
        return INVALID;
    }
    if (sticky()) return EXECUTION_FAILED;
    if (!call.m || !call.n || !call.batch) return FINE;
    for (const void* matrix : {call.a, call.b, static_cast<const void*>(call.c)})
        if (!is_device_memory(matrix) && (call.k || matrix == call.c)) {
            complain("%s: a matrix is not in device memory", call.name);
            count(FAULTS);
            spoil(ILLEGAL_ADDRESS);
            return FINE;
        }
    count(PRODUCTS);
    Product<A> product{ta,   tb,   size_t(call.m),   size_t(call.n),   size_t(call.k),
                       alpha, beta, size_t(call.lda), size_t(call.ldb), size_t(call.ldc)};
    submit(call.handle->stream, [=](unsigned long) {
        return on_device(call.name, [&] {
            for (long long i = 0; i < call.batch; i++)
                multiply(product, static_cast<const T*>(call.a) + i * call.stride_a, static_cast<const T*>(call.b) + i * call.stride_b,
                         static_cast<T*>(call.c) + i * call.stride_c);
        });
    });
    return FINE;
}

// `alpha` and `beta` are of the type in which it is computed.
int run_typed(const Call& call, int type_a, int type_b, int type_c, int compute, const void* alpha, const void* beta) {
    if (type_a != type_b || type_a != type_c) {
        complain("%s: matrices of different types", call.name);
        return NOT_SUPPORTED_BLAS;
    }
    if (!alpha || !beta) return INVALID;
    bool half = compute == COMPUTE_16F || compute == COMPUTE_16F_PEDANTIC;
    auto scale = [half](const void* at) { return half ? float(*static_cast<const __half*>(at)) : *static_cast<const float*>(at); };
    switch (type_a) {
    case F32: return run<float, float>(call, scale(alpha), scale(beta));
    case F64: return run<double, double>(call, *static_cast<const double*>(alpha), *static_cast<const double*>(beta));
    case F16: return run<__half, float>(call, scale(alpha), scale(beta));
    case BF16: return run<__nv_bfloat16, float>(call, scale(alpha), scale(beta));
    }
    complain("%s: type %d is not emulated", call.name, type_a);
    return NOT_SUPPORTED_BLAS;
}

} // namespace

extern "C" {
int cublasCreate_v2(BlasHandle** out) { return *out = new BlasHandle, FINE; }
int cublasDestroy_v2(BlasHandle* handle) { return delete handle, FINE; }
int cublasSetStream_v2(BlasHandle* handle, void* stream) { return handle->stream = stream, FINE; }

int cublasGemmStridedBatchedEx(BlasHandle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int type_a, int lda,
                               long long sa, const void* b, int type_b, int ldb, long long sb, const void* beta, void* c, int type_c,
                               int ldc, long long sc, int batch, int compute, int) {
    return run_typed({"cublasGemmStridedBatchedEx", h, ta, tb, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc, batch}, type_a, type_b, type_c,
                     compute, alpha, beta);
}
int cublasGemmEx(BlasHandle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int type_a, int lda, const void* b,
                 int type_b, int ldb, const void* beta, void* c, int type_c, int ldc, int compute, int) {
    return run_typed({"cublasGemmEx", h, ta, tb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, type_a, type_b, type_c, compute, alpha, beta);
}
int cublasSgemmStridedBatched(BlasHandle* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, long long sa,
                              const float* b, int ldb, long long sb, const float* beta, float* c, int ldc, long long sc, int batch) {
    return run<float>({"cublasSgemmStridedBatched", h, ta, tb, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc, batch}, *alpha, *beta);
}
int cublasDgemmStridedBatched(BlasHandle* h, int ta, int tb, int m, int n, int k, const double* alpha, const double* a, int lda,
                              long long sa, const double* b, int ldb, long long sb, const double* beta, double* c, int ldc, long long sc,
                              int batch) {
    return run<double>({"cublasDgemmStridedBatched", h, ta, tb, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc, batch}, *alpha, *beta);
}
int cublasSgemm_v2(BlasHandle* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                   const float* beta, float* c, int ldc) {
    return run<float>({"cublasSgemm", h, ta, tb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, *alpha, *beta);
}
int cublasDgemm_v2(BlasHandle* h, int ta, int tb, int m, int n, int k, const double* alpha, const double* a, int lda, const double* b,
                   int ldb, const double* beta, double* c, int ldc) {
    return run<double>({"cublasDgemm", h, ta, tb, m, n, k, a, lda, 0, b, ldb, 0, c, ldc, 0, 1}, *alpha, *beta);
}
}
