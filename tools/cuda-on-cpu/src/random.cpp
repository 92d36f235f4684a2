// Stands in for libcurand: the same distributions and refusals, other numbers than a GPU draws.
#include "stand_in.h"
#include <memory>

using namespace cuda_on_cpu;

namespace {

enum Status { FINE = 0, ODD_LENGTH = 105, LAUNCH_FAILURE = 201 };

struct Generator {
    // Shared with operations that still wait in a stream.
    std::shared_ptr<Random> random = std::make_shared<Random>(Random{0});
    void* stream = nullptr;
};

// In (0, 1], as cuRAND draws it: 1 may come, 0 never does.
double unit(Random& random, int bits) { return double((random.next() >> (64 - bits)) + 1) / double(1ul << bits); }
template <class T> constexpr int DIGITS = sizeof(T) == 4 ? 24 : 53;

template <class T, class Draw> int fill(Generator* of, T* out, size_t size, const char* name, Draw draw) {
    if (sticky()) return LAUNCH_FAILURE;
    if (!holds(Handle(out), size * sizeof(T), name)) return LAUNCH_FAILURE;
    auto random = of->random;
    submit(of->stream, [=](unsigned long) { return on_device(name, [&] { draw(*random, out, size); }); });
    return FINE;
}

template <class T> int uniform(Generator* of, T* out, size_t size, const char* name) {
    return fill(of, out, size, name, [](Random& random, T* to, size_t n) {
        for (size_t i = 0; i < n; i++) to[i] = T(unit(random, DIGITS<T>));
    });
}

// Normals come in pairs, and cuRAND refuses half a pair.
template <class T> int normal(Generator* of, T* out, size_t size, T mean, T deviation, const char* name) {
    if (size % 2) {
        complain("%s: %zu numbers, but normal numbers come in pairs", name, size);
        return ODD_LENGTH;
    }
    return fill(of, out, size, name, [=](Random& random, T* to, size_t n) {
        for (size_t i = 0; i < n; i += 2) {
            double radius = sqrt(-2 * log(unit(random, 53))), angle = 2 * M_PI * unit(random, 53);
            to[i] = T(mean + deviation * radius * cos(angle));
            to[i + 1] = T(mean + deviation * radius * sin(angle));
        }
    });
}

} // namespace

extern "C" {
int curandCreateGenerator(Generator** out, int) { return *out = new Generator, FINE; }
int curandDestroyGenerator(Generator* of) { return delete of, FINE; }
int curandSetStream(Generator* of, void* stream) { return of->stream = stream, FINE; }
int curandSetPseudoRandomGeneratorSeed(Generator* of, unsigned long long seed) {
    of->random = std::make_shared<Random>(Random{seed});
    return FINE;
}
int curandGenerateUniform(Generator* of, float* out, size_t size) { return uniform(of, out, size, "curandGenerateUniform"); }
int curandGenerateUniformDouble(Generator* of, double* out, size_t size) { return uniform(of, out, size, "curandGenerateUniformDouble"); }
int curandGenerateNormal(Generator* of, float* out, size_t size, float mean, float deviation) {
    return normal(of, out, size, mean, deviation, "curandGenerateNormal");
}
int curandGenerateNormalDouble(Generator* of, double* out, size_t size, double mean, double deviation) {
    return normal(of, out, size, mean, deviation, "curandGenerateNormalDouble");
}
}
