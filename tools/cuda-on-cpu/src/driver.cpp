// Stands in for libcuda: one device, whose memory is the host's.
#include "stand_in.h"
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <unistd.h>
#include <unordered_map>

using namespace cuda_on_cpu;

namespace {

thread_local void* current = nullptr;
std::atomic<int> contexts{0};
char the_context;

const unsigned MOST_THREADS = 1024, MOST_SHARED = 48 << 10;
const char MARK[] = "// cuda-on-cpu ";

using Module = std::unordered_map<std::string, const Kernel*>;

size_t physical_bytes(int pages) { return size_t(sysconf(pages)) * sysconf(_SC_PAGESIZE); }

// A copy whose host memory is pageable, as all is here: CUDA has read it when the call returns.
int copy_to_device(Handle to, const void* from, size_t size, void* stream, const char* name) {
    if (sticky()) return sticky();
    if (!holds(to, size, name)) return INVALID_VALUE;
    count(TO_DEVICE);
    count(TO_DEVICE_BYTES, size);
    if (!size) return SUCCESS;
    if (!is_ordered_later()) {
        memcpy(reinterpret_cast<void*>(to), from, size);
        return SUCCESS;
    }
    auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + size);
    return submit(stream, [=](unsigned long) {
        return on_device(name, [&] { memcpy(reinterpret_cast<void*>(to), staged->data(), staged->size()); });
    });
}

// And has written it when the call returns.
int copy_to_host(void* to, Handle from, size_t size, void* stream, const char* name) {
    if (sticky()) return sticky();
    if (!holds(from, size, name)) return INVALID_VALUE;
    count(TO_HOST);
    count(TO_HOST_BYTES, size);
    if (!size) return SUCCESS;
    submit(stream, [=](unsigned long) { return on_device(name, [&] { memcpy(to, reinterpret_cast<void*>(from), size); }); });
    synchronise_stream(stream);
    return sticky();
}

int copy_on_device(Handle to, Handle from, size_t size, void* stream, const char* name) {
    if (sticky()) return sticky();
    if (!holds(from, size, name) || !holds(to, size, name)) return INVALID_VALUE;
    count(ON_DEVICE);
    count(ON_DEVICE_BYTES, size);
    return submit(stream, [=](unsigned long) {
        return on_device(name, [&] { memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size); });
    });
}

int set(Handle to, unsigned char value, size_t size, void* stream, const char* name) {
    if (sticky()) return sticky();
    if (!holds(to, size, name)) return INVALID_VALUE;
    return submit(stream, [=](unsigned long) { return on_device(name, [&] { memset(reinterpret_cast<void*>(to), value, size); }); });
}

int take(Handle* out, size_t size) {
    if (sticky()) return sticky();
    if (!current) return INVALID_CONTEXT;
    int error = allocate(size, out);
    if (error) return error;
    count(ALLOCATIONS);
    count(ALLOCATED_BYTES, size);
    return SUCCESS;
}

} // namespace

extern "C" {

// ---- device and context
int cuInit(unsigned) {
    write_report_at_exit();
    return SUCCESS;
}
int cuDriverGetVersion(int* version) { return *version = 13000, SUCCESS; }
int cuDeviceGet(int* device, int ordinal) { return *device = 0, ordinal ? INVALID_DEVICE : SUCCESS; }
int cuDeviceGetCount(int* number) { return *number = 1, SUCCESS; }
int cuDeviceGetName(char* name, int size, int) { return snprintf(name, size, "cuda-on-cpu"), SUCCESS; }
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = physical_bytes(_SC_PHYS_PAGES), SUCCESS; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
    case 1: *value = MOST_THREADS; break; // threads of a block
    case 2: // and its sides
    case 3: *value = 1024; break;
    case 4: *value = 64; break;
    case 5: *value = 0x7fffffff; break; // sides of a grid
    case 6:
    case 7: *value = 65535; break;
    case 8: // shared memory of a block, which cannot be raised here
    case 97: *value = MOST_SHARED; break;
    case 10: *value = 32; break; // lanes of a warp
    case 16: *value = 1; break;  // multiprocessors
    case 39: *value = 2048; break; // threads of each
    case 75: *value = 8; break;  // compute capability 8.0
    case 115: *value = 1; break; // memory is taken and freed in the order of streams
    default: *value = 0;
    }
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
    contexts++;
    *context = &the_context;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int) {
    if (--contexts == 0) { // with the last user the context goes, and with it what spoiled it
        synchronise_device();
        forget_error();
    }
    return SUCCESS;
}
int cuCtxGetCurrent(void** context) { return *context = current, SUCCESS; }
int cuCtxSetCurrent(void* context) { return current = context, SUCCESS; }
int cuCtxSynchronize() {
    count(SYNCHRONISATIONS);
    synchronise_device();
    return sticky();
}
int cuGetErrorName(int error, const char** name) {
    static const std::pair<int, const char*> names[] = {
        {SUCCESS, "CUDA_SUCCESS"},
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {NOT_READY, "CUDA_ERROR_NOT_READY"},
        {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {ASSERT, "CUDA_ERROR_ASSERT"},
        {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
        {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    };
    for (auto& [code, text] : names)
        if (code == error) return *name = text, SUCCESS;
    return *name = nullptr, INVALID_VALUE;
}
int cuGetErrorString(int error, const char** text) {
    if (error == NOT_FOUND) return *text = "named symbol not found", SUCCESS;
    return cuGetErrorName(error, text);
}

// ---- memory
int cuMemAlloc_v2(Handle* out, size_t size) { return size ? take(out, size) : INVALID_VALUE; }
int cuMemAllocAsync(Handle* out, size_t size, void*) {
    if (!size) return *out = 0, sticky();
    return take(out, size);
}
int cuMemFree_v2(Handle start) {
    if (!start) return SUCCESS;
    synchronise_device();
    int error = release(start);
    if (error == ILLEGAL_ADDRESS) spoil(error);
    return sticky() ? sticky() : error;
}
int cuMemFreeAsync(Handle start, void* stream) {
    if (!start) return SUCCESS;
    if (!is_ordered_later()) return cuMemFree_v2(start);
    if (!can_release(start)) return INVALID_VALUE;
    submit(stream, [start](unsigned long) { return release(start); });
    return sticky();
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
    *total = physical_bytes(_SC_PHYS_PAGES);
    *free = *total - std::min(*total, held().bytes);
    return sticky();
}
int cuMemcpyHtoDAsync_v2(Handle to, const void* from, size_t size, void* stream) {
    return copy_to_device(to, from, size, stream, "cuMemcpyHtoDAsync");
}
int cuMemcpyHtoD_v2(Handle to, const void* from, size_t size) {
    int error = copy_to_device(to, from, size, nullptr, "cuMemcpyHtoD");
    synchronise_stream(nullptr);
    return error;
}
int cuMemcpyDtoHAsync_v2(void* to, Handle from, size_t size, void* stream) {
    return copy_to_host(to, from, size, stream, "cuMemcpyDtoHAsync");
}
int cuMemcpyDtoH_v2(void* to, Handle from, size_t size) { return copy_to_host(to, from, size, nullptr, "cuMemcpyDtoH"); }
int cuMemcpyDtoDAsync_v2(Handle to, Handle from, size_t size, void* stream) {
    return copy_on_device(to, from, size, stream, "cuMemcpyDtoDAsync");
}
int cuMemcpyDtoD_v2(Handle to, Handle from, size_t size) { return copy_on_device(to, from, size, nullptr, "cuMemcpyDtoD"); }
int cuMemsetD8Async(Handle to, unsigned char value, size_t size, void* stream) { return set(to, value, size, stream, "cuMemsetD8Async"); }
int cuMemsetD8_v2(Handle to, unsigned char value, size_t size) { return set(to, value, size, nullptr, "cuMemsetD8"); }

// ---- modules and launches
int cuModuleLoadData(Module** out, const void* image) {
    std::string text(static_cast<const char*>(image));
    if (text.rfind(MARK, 0)) {
        complain("this PTX was made by a real nvcc; compile it with the stand-in");
        return INVALID_PTX;
    }
    std::string path = text.substr(sizeof MARK - 1, text.find('\n') - (sizeof MARK - 1));
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        complain("%s", dlerror());
        return INVALID_PTX;
    }
    auto made_for = static_cast<const char*>(dlsym(library, "cuda_on_cpu_interface"));
    if (!made_for || strcmp(made_for, CUDA_ON_CPU_INTERFACE)) {
        complain("kernels were compiled by another version of the stand-in: run its build.py again");
        return INVALID_PTX;
    }
    auto module = new Module; // kept: its kernels may wait in a stream
    for (auto kernel = static_cast<const Kernel*>(dlsym(library, "cuda_on_cpu_kernels")); kernel->name; kernel++)
        (*module)[kernel->name] = kernel;
    *out = module;
    return sticky();
}
int cuModuleUnload(void*) { return SUCCESS; }
int cuModuleGetFunction(const Kernel** out, Module* module, const char* name) {
    auto found = module->find(name);
    if (found != module->end()) return *out = found->second, sticky();
    complain("there is no kernel %s (kernels of quantised models are not emulated)", name);
    return NOT_FOUND;
}
int cuLaunchKernel(const Kernel* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream,
                   void** arguments, void** extra) {
    if (sticky()) return sticky();
    const Kernel& kernel = *function;
    size_t threads = size_t(bx) * by * bz;
    if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || !threads || threads > MOST_THREADS || bx > 1024 || by > 1024 || bz > 64) {
        complain("%s: a grid of %u x %u x %u blocks of %u x %u x %u threads cannot be launched", kernel.name, gx, gy, gz, bx, by, bz);
        return INVALID_VALUE;
    }
    if (shared > MOST_SHARED) {
        complain("%s: asks for %u bytes of shared memory, of 48 KiB", kernel.name, shared);
        return INVALID_VALUE;
    }
    if (extra) return NOT_SUPPORTED;
    count(LAUNCHES);
    if (!is_ordered_later()) {
        spoil(run_grid(kernel, {gx, gy, gz}, {bx, by, bz}, shared, arguments, 0));
        return SUCCESS; // a failure shows at the next call, as on a GPU
    }
    const size_t slot = 16; // no argument is aligned to more
    std::vector<size_t> offsets;
    size_t bytes = 0;
    for (unsigned i = 0; i < kernel.count; i++) {
        offsets.push_back(bytes);
        bytes += (kernel.sizes[i] + slot - 1) / slot * slot;
    }
    auto copied = std::make_shared<std::vector<char>>(bytes);
    for (unsigned i = 0; i < kernel.count; i++) memcpy(copied->data() + offsets[i], arguments[i], kernel.sizes[i]);
    return submit(stream, [=, &kernel](unsigned long shuffle) {
        if (sticky()) return int(SUCCESS); // a spoiled context runs nothing
        std::vector<void*> pointers;
        for (size_t offset : offsets) pointers.push_back(copied->data() + offset);
        return run_grid(kernel, {gx, gy, gz}, {bx, by, bz}, shared, pointers.data(), shuffle);
    });
}
}
