// Messages, the sticky error, counts, and the report at exit.
#include "stand_in.h"
#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace cuda_on_cpu {

void complain(const char* format, ...) {
    char line[1024];
    int used = snprintf(line, sizeof line, "cuda-on-cpu: ");
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    used = std::min<int>(used, sizeof line - 2);
    line[used++] = '\n';
    // One write, so that lines of several threads do not mix.
    if (write(STDERR_FILENO, line, used) < 0) return;
}

unsigned long setting(const char* name, unsigned long otherwise) {
    const char* text = getenv(name);
    return text && *text ? strtoul(text, nullptr, 10) : otherwise;
}

static std::atomic<int> spoiled{SUCCESS};
int sticky() { return spoiled.load(std::memory_order_relaxed); }
void spoil(int error) {
    int none = SUCCESS;
    if (error) spoiled.compare_exchange_strong(none, error);
}
void forget_error() { spoiled = SUCCESS; }

static std::atomic<unsigned long> of_process[COUNTS];
static thread_local unsigned long of_thread[COUNTS];
void count(Count what, size_t by) {
    of_process[what].fetch_add(by, std::memory_order_relaxed);
    of_thread[what] += by;
}

static const char* const names[COUNTS] = {
    "launches",       "products",       "allocations",     "allocated_bytes",      "host_to_device",   "host_to_device_bytes",
    "device_to_host", "device_to_host_bytes", "device_to_device", "device_to_device_bytes", "synchronisations", "faults",
};

static void write_report() {
    synchronise_device();
    Held rest = held();
    const char* path = getenv("CUDA_ON_CPU_REPORT");
    if (!path || !*path) return;
    std::string line = "{\"pid\": " + std::to_string(getpid());
    for (int i = 0; i < COUNTS; i++) line += std::string(", \"") + names[i] + "\": " + std::to_string(of_process[i].load());
    line += ", \"held\": " + std::to_string(rest.count) + ", \"held_bytes\": " + std::to_string(rest.bytes) + ", \"held_sizes\": [";
    for (size_t i = 0; i < rest.sizes.size(); i++) line += (i ? ", " : "") + std::to_string(rest.sizes[i]);
    line += "]}\n";
    // A line for each process, added at once: a test run is many processes.
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line.data(), line.size()) < 0) complain("the report could not be written to %s", path);
    if (file >= 0) close(file);
}
void write_report_at_exit() {
    static bool once = (atexit(write_report), true);
    (void)once;
}

} // namespace cuda_on_cpu

extern "C" {
// Both fill `COUNTS` numbers, in the order of the enumeration, and return how many there are.
unsigned cuda_on_cpu_counts(unsigned long* out) {
    for (int i = 0; i < cuda_on_cpu::COUNTS; i++) out[i] = cuda_on_cpu::of_process[i].load();
    return cuda_on_cpu::COUNTS;
}
unsigned cuda_on_cpu_thread_counts(unsigned long* out) {
    std::copy_n(cuda_on_cpu::of_thread, cuda_on_cpu::COUNTS, out);
    return cuda_on_cpu::COUNTS;
}
void cuda_on_cpu_held(unsigned long* count, unsigned long* bytes) {
    cuda_on_cpu::Held rest = cuda_on_cpu::held();
    *count = rest.count, *bytes = rest.bytes;
}
void cuda_on_cpu_not_emulated(const char* what) {
    cuda_on_cpu::complain("%s is not emulated", what);
    cuda_on_cpu::count(cuda_on_cpu::FAULTS);
    cuda_on_cpu::spoil(cuda_on_cpu::NOT_SUPPORTED);
}
}
