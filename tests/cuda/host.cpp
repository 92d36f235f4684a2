// Drives the stand-in through the API of the CUDA driver. `host CASE` runs one case; what it must say is in the test.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using Handle = unsigned long long;
extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void*);
int cuCtxSynchronize();
int cuMemAllocAsync(Handle*, size_t, void*);
int cuMemFreeAsync(Handle, void*);
int cuMemcpyHtoDAsync_v2(Handle, const void*, size_t, void*);
int cuMemcpyDtoHAsync_v2(void*, Handle, size_t, void*);
int cuMemsetD8Async(Handle, unsigned char, size_t, void*);
int cuModuleLoadData(void**, const void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int cuStreamCreate(void**, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventRecord(void*, void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cublasCreate_v2(void**);
int cublasGemmStridedBatchedEx(void*, int, int, int, int, int, const void*, const void*, int, int, long long, const void*, int, int, long long,
                               const void*, void*, int, int, long long, int, int, int);
int curandCreateGenerator(void**, int);
int curandGenerateNormal(void*, float*, size_t, float, float);
int curandGenerateUniform(void*, float*, size_t);
unsigned cuda_on_cpu_counts(unsigned long*);
}

struct Dim {
    unsigned x = 1, y = 1, z = 1;
    unsigned all() const { return x * y * z; }
};
void* const OWN = reinterpret_cast<void*>(2); // the calling thread's stream
void* module;
void* context;

void need(bool fine, const std::string& what) {
    if (fine) return;
    printf("WRONG %s\n", what.c_str());
    exit(1);
}
void fine(int error, const char* what) { need(!error, what + std::string(": error ") + std::to_string(error)); }

template <class... A> int launch(const char* name, Dim grid, Dim block, unsigned shared, void* stream, A... arguments) {
    void* function;
    fine(cuModuleGetFunction(&function, module, name), name);
    void* all[] = {&arguments...};
    return cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, all, nullptr);
}
template <class T> Handle device(const std::vector<T>& of, void* stream = OWN) {
    Handle out;
    fine(cuMemAllocAsync(&out, of.size() * sizeof(T), stream), "memory");
    fine(cuMemcpyHtoDAsync_v2(out, of.data(), of.size() * sizeof(T), stream), "copy");
    return out;
}
template <class T> Handle empty(size_t size, void* stream = OWN) {
    Handle out;
    fine(cuMemAllocAsync(&out, size * sizeof(T), stream), "memory");
    return out;
}
template <class T> std::vector<T> host(Handle of, size_t size, void* stream = OWN) {
    std::vector<T> out(size);
    fine(cuMemcpyDtoHAsync_v2(out.data(), of, size * sizeof(T), stream), "copy back");
    return out;
}
std::vector<float> counting(size_t n) {
    std::vector<float> out(n);
    for (size_t i = 0; i < n; i++) out[i] = i;
    return out;
}
uint64_t drawn() {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 11;
}

void blocks_are_summed() {
    for (Dim block : {Dim{1}, Dim{2}, Dim{31}, Dim{32}, Dim{33}, Dim{7, 5, 3}, Dim{1, 1, 64}, Dim{1023}, Dim{32, 32}})
        for (Dim grid : {Dim{1}, Dim{3, 2, 2}}) {
            size_t threads = block.all(), all = threads * grid.all();
            Handle in = device(counting(all)), floats = empty<float>(all), wholes = empty<uint64_t>(all);
            fine(launch("sums", grid, block, 0, OWN, in, floats, wholes), "sums");
            auto sums = host<float>(floats, all);
            auto exact = host<uint64_t>(wholes, all);
            for (size_t i = 0; i < all; i++) {
                size_t first = i / threads * threads, expected = (first + first + threads - 1) * threads / 2;
                need(exact[i] == expected, "a sum of whole numbers");
                need(fabs(sums[i] - double(expected)) <= 1e-4 * expected, "a sum of floats");
            }
            for (Handle one : {in, floats, wholes}) fine(cuMemFreeAsync(one, OWN), "free");
        }
}

void warps_exchange() {
    for (unsigned threads : {1u, 13u, 32u, 45u, 64u, 1000u, 1024u}) {
        Handle in = device(counting(threads)), all = empty<float>(threads), before = empty<float>(threads), first = empty<float>(threads);
        fine(launch("warp_sums", {1}, {threads}, 0, OWN, in, all, before, first), "warp_sums");
        auto sums = host<float>(all, threads), prefixes = host<float>(before, threads), firsts = host<float>(first, threads);
        for (unsigned i = 0; i < threads; i++) {
            unsigned start = i / 32 * 32;
            if (start + 32 <= threads) need(sums[i] == 32 * start + 31 * 16, "a sum of a warp");
            need(prefixes[i] == (start + i) * (i - start + 1) / 2.0f, "a sum of the lanes before");
            need(firsts[i] == start, "the first lane's value");
        }
    }
    Handle out = empty<float>(32);
    fine(launch("half_warp", {1}, {32}, 0, OWN, out), "half_warp");
    auto values = host<float>(out, 32);
    for (unsigned i = 0; i < 31; i++) need(values[i] == (i + 1 < 16 ? (i + 1) ^ 1 : i + 1), "half a warp");
    need(values[31] == 31, "the last lane keeps its own");
}

void shared_memory_is_dynamic() {
    for (unsigned n : {1u, 3u, 257u, 1024u}) {
        Handle in = device(counting(n)), out = empty<float>(n);
        fine(launch("reversed", {1}, {n}, n * 4, OWN, in, out), "reversed");
        auto row = host<float>(out, n);
        for (unsigned i = 0; i < n; i++) need(row[i] == n - 1 - i, "a reversed row");
    }
}

void atomics_count(unsigned threads) {
    Handle counter = device(std::vector<unsigned>{0}), sum = device(std::vector<float>{0}), total = device(std::vector<double>{0});
    Handle least = device(std::vector<int>{0}), most = device(std::vector<int>{0});
    fine(cuCtxSynchronize(), "the zeros"); // which are copied in this thread's stream
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; i++)
        all.emplace_back([=] {
            fine(cuCtxSetCurrent(context), "context");
            for (int j = 0; j < 50; j++) fine(launch("atomics", {10}, {100}, 0, OWN, counter, sum, least, most, total), "atomics");
            fine(cuCtxSynchronize(), "atomics");
        });
    for (auto& one : all) one.join();
    unsigned expected = threads * 50 * 1000;
    need(host<unsigned>(counter, 1)[0] == expected, "an atomic count");
    need(host<float>(sum, 1)[0] == expected, "an atomic sum");
    need(host<double>(total, 1)[0] == expected * 0.5, "an atomic sum of doubles");
    need(host<int>(least, 1)[0] == -999 && host<int>(most, 1)[0] == 999, "least and most");
}

// The nearest number of `digits` binary digits whose exponent is at least `lowest`, to even at ties; too large is infinite.
double nearest(double value, int digits, int lowest, double largest) {
    if (value == 0 || !std::isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent);
    double unit = ldexp(1, std::max(exponent, lowest) - digits), rounded = nearbyint(value / unit) * unit;
    return fabs(rounded) > largest ? copysign(INFINITY, value) : rounded;
}
struct Format {
    const char* kernel;
    int digits, lowest, mantissa, bias;
    double largest() const { return ldexp(2 - ldexp(1, 1 - digits), (kernel[0] == 'h' ? 15 : 127)); }
    double value(uint16_t bits) const { // from the definition
        int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1), top = (1 << (15 - mantissa)) - 1;
        double size = exponent == top ? (fraction ? NAN : INFINITY)
                      : exponent      ? ldexp(1 + ldexp(fraction, -mantissa), exponent - bias)
                                      : ldexp(fraction, 1 - bias - mantissa);
        return bits & 0x8000 ? -size : size;
    }
};

void short_floats_are_rounded() {
    for (Format format : {Format{"halves", 11, -13, 10, 15}, Format{"brains", 8, -125, 7, 127}}) {
        const unsigned n = 65536;
        std::vector<uint16_t> a(n), b(n);
        std::vector<float> wide(n);
        std::vector<double> wider(n);
        for (unsigned i = 0; i < n; i++) {
            a[i] = i, b[i] = drawn();
            // Near halfway between two numbers of the format, where rounding is decided.
            double middle = format.value(b[i] & 0x7fff), next = format.value((b[i] & 0x7fff) + 1);
            double halfway = std::isfinite(next) ? (middle + next) / 2 : middle;
            wide[i] = i % 3 == 0 ? nextafterf(halfway, 0) : i % 3 == 1 ? halfway : nextafterf(halfway, INFINITY);
            wider[i] = i % 3 == 0 ? nextafter(halfway, 0) : i % 3 == 1 ? -halfway : nextafter(halfway, INFINITY);
        }
        Handle out = empty<uint16_t>(n * 8);
        fine(launch(format.kernel, {n / 256}, {256}, 0, OWN, device(a), device(b), device(wide), device(wider), out, n), format.kernel);
        auto got = host<uint16_t>(out, n * 8);
        for (unsigned i = 0; i < n; i++) {
            double x = format.value(a[i]), y = format.value(b[i]);
            double exact[] = {x + y, x - y, x * y, x / y, wide[i], wider[i], sqrt(x), x};
            for (int j = 0; j < 8; j++) {
                double expected = nearest(exact[j], format.digits, format.lowest, format.largest()), given = format.value(got[i * 8 + j]);
                bool same = std::isnan(expected) ? std::isnan(given) : given == expected;
                if (!same) printf("%s %d: %g and %g give %.17g, not %.17g\n", format.kernel, j, x, y, given, expected);
                need(same, "rounding");
            }
        }
    }
}

template <class T, class Scale> void products_of(int type, int compute, double tolerance) {
    void* blas;
    fine(cublasCreate_v2(&blas), "cublas");
    auto number = [&](int range) { return (int(drawn() % (2 * range + 1)) - range) / 4.0; };
    auto as_double = [](const T& value) -> double { return value; };
    for (auto [m, n, k] : {std::array<int, 3>{1, 1, 1}, {3, 5, 7}, {33, 6, 19}, {64, 48, 100}, {65, 13, 1}, {17, 31, 0}, {130, 70, 257}})
        for (int turned = 0; turned < 4; turned++)
            for (double beta : {0.0, 0.5}) {
                bool ta = turned & 1, tb = turned & 2;
                int lda = (ta ? k : m) + 3, ldb = (tb ? n : k) + 1, ldc = m + 2, batch = 2;
                size_t sa = size_t(lda) * (ta ? m : k) + 5, sb = size_t(ldb) * (tb ? k : n), sc = size_t(ldc) * n + 1;
                std::vector<T> a(sa * batch), b(sb * batch), c(sc * batch);
                for (auto* each : {&a, &b, &c})
                    for (T& value : *each) value = T(number(8));
                if (beta == 0)
                    for (T& value : c) value = T(NAN); // not read
                Handle da = device(a.empty() ? std::vector<T>(1) : a), db = device(b.empty() ? std::vector<T>(1) : b), dc = device(c);
                Scale one = Scale(1.5), other = Scale(beta);
                fine(cublasGemmStridedBatchedEx(blas, ta, tb, m, n, k, &one, (void*)da, type, lda, sa, (void*)db, type, ldb, sb, &other, (void*)dc,
                                                type, ldc, sc, batch, compute, 0),
                     "gemm");
                auto got = host<T>(dc, c.size());
                for (int l = 0; l < batch; l++)
                    for (int i = 0; i < m; i++)
                        for (int j = 0; j < n; j++) {
                            double sum = 0;
                            for (int h = 0; h < k; h++)
                                sum += as_double(a[l * sa + (ta ? size_t(i) * lda + h : size_t(h) * lda + i)]) *
                                       as_double(b[l * sb + (tb ? size_t(h) * ldb + j : size_t(j) * ldb + h)]);
                            double expected = 1.5 * sum + (beta ? beta * as_double(c[l * sc + size_t(j) * ldc + i]) : 0);
                            double given = as_double(got[l * sc + size_t(j) * ldc + i]);
                            need(fabs(given - expected) <= tolerance * (1 + fabs(expected)), "a product");
                        }
                for (Handle each : {da, db, dc}) fine(cuMemFreeAsync(each, nullptr), "free");
            }
    Handle matrix = empty<T>(64);
    Scale one = Scale(1);
    int refused = cublasGemmStridedBatchedEx(blas, 0, 0, 8, 8, 8, &one, (void*)matrix, type, 7, 0, (void*)matrix, type, 8, 0, &one, (void*)matrix,
                                             type, 8, 0, 1, compute, 0);
    need(refused == 7, "a leading dimension that is too small");
}
struct Half {
    _Float16 value;
    Half(double number = 0) : value(number) {}
    operator double() const { return double(value); }
};
void products() {
    products_of<float, float>(0, 68, 1e-5);
    products_of<double, double>(1, 70, 1e-13);
    products_of<Half, float>(2, 68, 1e-3);
    products_of<Half, Half>(2, 64, 1e-3);
}

void numbers_are_drawn() {
    void* generator;
    fine(curandCreateGenerator(&generator, 100), "curand");
    const size_t n = 100000;
    Handle out = empty<float>(n);
    for (bool normal : {false, true}) {
        fine(normal ? curandGenerateNormal(generator, (float*)out, n, 1, 2) : curandGenerateUniform(generator, (float*)out, n), "draws");
        double sum = 0, squares = 0;
        for (float value : host<float>(out, n)) {
            need(normal || (value > 0 && value <= 1), "in (0, 1]");
            sum += value, squares += double(value) * value;
        }
        double mean = sum / n, deviation = sqrt(squares / n - mean * mean);
        need(fabs(mean - (normal ? 1 : 0.5)) < 0.03 && fabs(deviation - (normal ? 2 : sqrt(1 / 12.0))) < 0.03, "mean and deviation");
    }
    need(curandGenerateNormal(generator, (float*)out, n - 1, 0, 1) == 105, "an odd number of normals");
}

// A kernel in one stream needs what another stream makes. With an event it always has it.
void streams(bool with_event) {
    void *one, *other, *event;
    fine(cuStreamCreate(&one, 1), "stream");
    fine(cuStreamCreate(&other, 1), "stream");
    fine(cuEventCreate(&event, 0), "event");
    int right = 0;
    for (int i = 0; i < 50; i++) {
        Handle value = device(std::vector<float>{1}, one);
        fine(cuCtxSynchronize(), "synchronise");
        fine(launch("add_one", {1}, {1}, 0, one, value, 1u), "add_one");
        if (with_event) fine(cuEventRecord(event, one), "record"), fine(cuStreamWaitEvent(other, event, 0), "wait");
        fine(launch("twice", {1}, {1}, 0, other, value, 1u), "twice");
        right += host<float>(value, 1, other)[0] == 4;
    }
    printf("right %d of 50\n", right);
}
// The null stream waits for the thread's own stream and the other way round.
void null_stream() {
    for (int i = 0; i < 50; i++) {
        Handle value = device(std::vector<float>{1});
        fine(launch("add_one", {1}, {1}, 0, OWN, value, 1u), "add_one");
        fine(launch("twice", {1}, {1}, 0, nullptr, value, 1u), "twice");
        fine(launch("add_one", {1}, {1}, 0, OWN, value, 1u), "add_one");
        need(host<float>(value, 1)[0] == 5, "the order with the null stream");
    }
}

void many_launches() {
    for (int i = 0; i < 200000; i++) {
        Handle value = empty<float>(100 + i % 7);
        fine(launch("add_one", {1}, {1}, 0, OWN, value, 1u), "add_one");
        fine(cuMemFreeAsync(value, OWN), "free");
    }
}

int main(int, char** arguments) {
    std::string name = arguments[1];
    std::stringstream text;
    text << std::ifstream(arguments[2]).rdbuf();
    fine(cuInit(0), "cuInit");
    fine(cuDevicePrimaryCtxRetain(&context, 0), "context");
    fine(cuCtxSetCurrent(context), "context");
    fine(cuModuleLoadData(&module, text.str().c_str()), "module");

    const unsigned n = 1000;
    std::vector<float> numbers = counting(n);
    Handle in = device(numbers), out = empty<float>(n);
    int error = 0;
    if (name == "right") {
        blocks_are_summed();
        warps_exchange();
        shared_memory_is_dynamic();
        null_stream();
        unsigned long before[32], after[32];
        cuda_on_cpu_counts(before);
        fine(launch("copy", {n}, {1}, 0, OWN, in, out, n), "copy");
        need(host<float>(out, n) == numbers, "a copy");
        cuda_on_cpu_counts(after);
        need(after[0] - before[0] == 1 && after[4] == before[4] && after[6] - before[6] == 1 && after[7] - before[7] == 4 * n, "the counts");
    } else if (name == "atomics") {
        atomics_count(4);
    } else if (name == "short_floats") {
        short_floats_are_rounded();
    } else if (name == "products") {
        products();
        numbers_are_drawn();
    } else if (name == "many_launches") {
        many_launches();
    } else if (name == "streams") {
        streams(false);
    } else if (name == "streams_with_event") {
        streams(true);
    } else if (name == "reads_past") {
        error = launch("reads_past", {4}, {256}, 0, OWN, in, out, n);
    } else if (name == "writes_past") {
        fine(launch("writes_past", {4}, {256}, 0, OWN, out, n), "launch");
        error = cuMemFreeAsync(out, OWN);
    } else if (name == "writes_before") {
        fine(launch("writes_before", {1}, {32}, 0, OWN, out), "launch");
        error = cuMemFreeAsync(out, OWN);
    } else if (name == "reads_before") {
        error = launch("reads_before", {1}, {32}, 0, OWN, in, out);
    } else if (name == "reads_the_first_block") {
        fine(launch("reads_the_first_block", {32}, {1}, 0, OWN, out), "launch");
        int right = 0;
        for (float value : host<float>(out, 32)) right += value == 1;
        printf("%d of 32 right\n", right);
    } else if (name == "host_memory") {
        error = launch("copy", {4}, {256}, 0, OWN, Handle(numbers.data()), out, n);
    } else if (name == "null") {
        error = launch("copy", {4}, {256}, 0, OWN, Handle(0), out, n);
    } else if (name == "freed_before_use") {
        fine(cuMemFreeAsync(in, OWN), "free");
        error = launch("copy", {4}, {256}, 0, OWN, in, out, n);
    } else if (name == "freed_before_copy") {
        fine(cuMemFreeAsync(in, OWN), "free");
        cuCtxSynchronize();
        error = cuMemcpyDtoHAsync_v2(numbers.data(), in, 4 * n, OWN);
    } else if (name == "freed_twice") {
        fine(cuMemFreeAsync(in, OWN), "free");
        cuCtxSynchronize();
        error = cuMemFreeAsync(in, OWN);
    } else if (name == "copies_too_much") {
        numbers.resize(n + 1);
        error = cuMemcpyHtoDAsync_v2(in, numbers.data(), 4 * (n + 1), OWN);
    } else if (name == "uninitialised") {
        fine(launch("copy", {4}, {256}, 0, OWN, empty<float>(n), out, n), "copy");
        int nans = 0;
        for (float value : host<float>(out, n)) nans += std::isnan(value);
        printf("%d NaN\n", nans);
    } else if (name == "reversed_without_waiting") {
        fine(launch("reversed_without_waiting", {1}, {256}, 0, OWN, in, out), "launch");
        int right = 0;
        auto row = host<float>(out, 256);
        for (int i = 0; i < 256; i++) right += row[i] == 255 - i;
        printf("%d of 256 right\n", right);
    } else if (name == "too_many_threads") {
        error = launch("copy", {1}, {1025}, 0, OWN, in, out, n);
    } else if (name == "no_blocks") {
        error = launch("copy", {0}, {32}, 0, OWN, in, out, n);
    } else if (name == "too_much_dynamic") {
        error = launch("reversed", {1}, {32}, 48 * 1024 + 4, OWN, in, out);
    } else if (name == "asserts") {
        error = launch("asserts", {4}, {250}, 0, OWN, in);
    } else if (name == "too_deep") {
        error = launch("too_deep", {1}, {1}, 0, OWN, out, 1000);
    } else if (name == "leak") {
        return 0; // `in` and `out` are held
    } else { // a kernel that needs only an output
        error = launch(name.c_str(), {1}, {32}, 0, OWN, out);
    }
    int later = cuCtxSynchronize();
    if (error || later) {
        printf("error %d\n", later ? later : error);
        // A new context is sound again.
        fine(cuDevicePrimaryCtxRelease_v2(0), "release");
        fine(cuDevicePrimaryCtxRetain(&context, 0), "retain");
        Handle fresh_in = device(counting(n)), fresh_out = empty<float>(n);
        fine(launch("copy", {4}, {256}, 0, OWN, fresh_in, fresh_out, n), "copy afterwards");
        need(host<float>(fresh_out, n) == counting(n), "a copy afterwards");
    }
    printf("done\n");
}
