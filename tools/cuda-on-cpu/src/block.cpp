// Runs a grid: its blocks one after another, the threads of a block as fibers of the calling thread.
//
// A fiber begins threads until one of them waits; then another fiber goes on. So a block whose threads never wait is a
// loop on one fiber, and one with a barrier uses as many fibers as it has threads.
#include "stand_in.h"
#include <memory>
#include <mutex>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define LEAVES_STACK(keep, bottom, size) __sanitizer_start_switch_fiber(keep, bottom, size)
#define ENTERS_STACK(kept, bottom, size) __sanitizer_finish_switch_fiber(kept, bottom, size)
#else
#define LEAVES_STACK(keep, bottom, size) (void)(keep)
#define ENTERS_STACK(kept, bottom, size) (void)(kept)
#endif

thread_local cuda_on_cpu::Now cuda_on_cpu_now __attribute__((tls_model("initial-exec"))) = {};

namespace cuda_on_cpu {
namespace {

const size_t PAGE = sysconf(_SC_PAGESIZE);
const size_t STACK = 128 << 10;
const size_t FIBERS_AT_ONCE = 32;
const unsigned MOST_THREADS = 1024;
const size_t MOST_SHARED = 48 << 10;
const unsigned MOST_DECLARATIONS = 16;

struct Worker;

struct Fiber {
    Worker* worker;
    char* stack;
    jmp_buf context;
    bool fresh = true; // has no context yet
    bool ended = false;
    Dim thread; // that it runs
    void* fake_stack = nullptr; // of the address sanitizer
};

struct Lane {
    Fiber* fiber;
    unsigned lanes; // that it exchanges with
    unsigned from;
    unsigned size;
    void* theirs;
    char value[16];
};

struct Declaration {
    const void* key;
    char* memory;
};

// All that one grid needs. Kept for the next, since fibers are dear to make.
struct Worker {
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle, ready, at_barrier, at_exchange;
    Fiber* now = nullptr;
    jmp_buf home;
    void* home_fake_stack = nullptr;
    const void* home_stack = nullptr;
    size_t home_stack_size = 0;

    const Kernel* kernel = nullptr;
    void** arguments = nullptr;
    Random random{0};
    bool shuffled = false;
    unsigned order[MOST_THREADS];

    unsigned alive = 0, warp_alive[32], arrived[32]; // of the block, once one of its threads waited
    int barrier_line = 0;
    Lane lanes[MOST_THREADS];

    char* shared_memory; // a slot for each declaration, each before a page that cannot be touched
    size_t dynamic = 0, shared_bytes = 0;
    Declaration declared[MOST_DECLARATIONS];
    unsigned declarations = 0;

    Worker() {
        size_t size = (MOST_DECLARATIONS + 1) * (MOST_SHARED + PAGE);
        shared_memory = static_cast<char*>(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (unsigned slot = 0; slot <= MOST_DECLARATIONS; slot++)
            mprotect(slot_end(slot) - MOST_SHARED, MOST_SHARED, PROT_READ | PROT_WRITE);
    }
    char* slot_end(unsigned slot) { return shared_memory + slot * (MOST_SHARED + PAGE) + MOST_SHARED; }

    void make_fibers() {
        size_t each = STACK + PAGE;
        char* at = static_cast<char*>(mmap(nullptr, FIBERS_AT_ONCE * each + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (size_t i = 0; i < FIBERS_AT_ONCE; i++) {
            fibers.push_back(std::make_unique<Fiber>());
            fibers.back()->worker = this;
            fibers.back()->stack = at + PAGE + i * each; // stacks grow down, into the page before
            mprotect(fibers.back()->stack, STACK, PROT_READ | PROT_WRITE);
            idle.push_back(fibers.back().get());
        }
    }

    void run_block();
    void resume(Fiber* fiber);
    void begin_waiting();
    void park();
    void wake(std::vector<Fiber*>& those);
    bool exchange_within(unsigned warp, unsigned lanes, Fiber* asking);
    void abandon();
};

thread_local Worker* worker __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local Fiber* first_run = nullptr;

void fiber_body() {
    Fiber* self = first_run;
    for (;;) {
        ENTERS_STACK(self->fake_stack, &self->worker->home_stack, &self->worker->home_stack_size);
        self->worker->kernel->run(self->worker->arguments);
        self->ended = true;
        LEAVES_STACK(&self->fake_stack, self->worker->home_stack, self->worker->home_stack_size);
        if (!_setjmp(self->context)) _longjmp(self->worker->home, 1);
    }
}

void Worker::resume(Fiber* fiber) {
    now = fiber;
    if (!_setjmp(home)) {
        LEAVES_STACK(&home_fake_stack, fiber->stack, STACK);
        if (!fiber->fresh) _longjmp(fiber->context, 1);
        ucontext_t beginning;
        getcontext(&beginning);
        beginning.uc_stack.ss_sp = fiber->stack;
        beginning.uc_stack.ss_size = STACK;
        beginning.uc_link = nullptr;
        makecontext(&beginning, fiber_body, 0);
        fiber->fresh = false;
        first_run = fiber;
        setcontext(&beginning);
    }
    ENTERS_STACK(home_fake_stack, nullptr, nullptr);
    now = nullptr;
}

// The running thread waits until it is made ready.
void Worker::park() {
    Fiber* self = now;
    self->thread = cuda_on_cpu_now.thread;
    LEAVES_STACK(&self->fake_stack, home_stack, home_stack_size);
    if (!_setjmp(self->context)) _longjmp(home, 1);
    ENTERS_STACK(self->fake_stack, &home_stack, &home_stack_size);
}

void Worker::wake(std::vector<Fiber*>& those) {
    ready.insert(ready.end(), those.rbegin(), those.rend()); // the last is taken first
    those.clear();
}

// Threads are counted from the first that waits on. Those begun before it have ended.
void Worker::begin_waiting() {
    Now& at = cuda_on_cpu_now;
    if (at.waited) return;
    at.waited = true;
    alive = at.threads - (at.begun - 1);
    for (unsigned warp = 0; warp * 32 < at.threads; warp++) {
        unsigned lanes = std::min(32u, at.threads - warp * 32);
        warp_alive[warp] = lanes == 32 ? ~0u : (1u << lanes) - 1;
        arrived[warp] = 0;
    }
    for (unsigned i = 0; i + 1 < at.begun; i++) {
        unsigned thread = at.order ? at.order[i] : i;
        warp_alive[thread / 32] &= ~(1u << thread % 32);
    }
}

// Exchanges the values of the lanes that wait for one another, if all have come.
bool Worker::exchange_within(unsigned warp, unsigned lanes_asked, Fiber* asking) {
    Lane* of = lanes + warp * 32;
    unsigned group = 0;
    for (unsigned i = 0; i < 32; i++)
        if (arrived[warp] >> i & 1 && of[i].lanes == lanes_asked) group |= 1u << i;
    if (!group || lanes_asked & warp_alive[warp] & ~group) return false;
    for (unsigned i = 0; i < 32; i++) {
        if (!(group >> i & 1)) continue;
        if (of[i].from < 32 && group >> of[i].from & 1)
            memcpy(of[i].theirs, of[of[i].from].value, of[i].size);
        else
            memset(of[i].theirs, 0xff, of[i].size); // undefined on a GPU
        if (of[i].fiber != asking) at_exchange.push_back(of[i].fiber);
    }
    arrived[warp] &= ~group;
    wake(at_exchange);
    return true;
}

void Worker::run_block() {
    Now& at = cuda_on_cpu_now;
    at.begun = 0;
    at.waited = false;
    declarations = 0;
    shared_bytes = dynamic;
    if (dynamic) memset(slot_end(MOST_DECLARATIONS) - dynamic, 0xff, dynamic);
    if (shuffled) {
        std::iota(order, order + at.threads, 0);
        for (unsigned i = at.threads; i > 1; i--) std::swap(order[i - 1], order[random.below(i)]);
    }
    at.order = shuffled ? order : nullptr;
    for (;;) {
        Fiber* next;
        bool more = at.begun < at.threads;
        if (!ready.empty() && (!more || !shuffled || random.next() & 1)) {
            if (shuffled) std::swap(ready.back(), ready[random.below(ready.size())]);
            next = ready.back();
            ready.pop_back();
            at.thread = next->thread;
        } else if (more) {
            if (idle.empty()) make_fibers();
            next = idle.back();
            idle.pop_back();
            next->ended = false;
        } else {
            break;
        }
        resume(next);
        if (next->ended) idle.push_back(next);
    }
    if (at.waited && alive) {
        complain("%s: block %u %u %u: %u threads wait for others that never come", kernel->name, at.block.x, at.block.y, at.block.z,
                 alive);
        leave(LAUNCH_FAILED);
    }
}

// After a launch was left in the middle: whatever its fibers were doing is gone.
void Worker::abandon() {
    ready.clear();
    at_barrier.clear();
    at_exchange.clear();
    idle.clear();
    for (auto& fiber : fibers) {
        fiber->fresh = true;
        fiber->fake_stack = nullptr;
        idle.push_back(fiber.get());
    }
    now = nullptr;
}

// Threads that launch come and go, workers stay.
struct Workers {
    std::mutex lock;
    std::vector<std::unique_ptr<Worker>> free;

    std::unique_ptr<Worker> take() {
        std::lock_guard<std::mutex> hold(lock);
        if (free.empty()) return std::make_unique<Worker>();
        auto one = std::move(free.back());
        free.pop_back();
        return one;
    }
    void give(std::unique_ptr<Worker> one) {
        std::lock_guard<std::mutex> hold(lock);
        free.push_back(std::move(one));
    }
};
Workers& workers() {
    static Workers* all = new Workers;
    return *all;
}

[[noreturn]] void stop_block(int error, const std::string& why) {
    complain("%s%s: %s", worker->kernel->name, where().c_str(), why.c_str());
    leave(error);
}

} // namespace

std::string where() {
    if (!worker) return "";
    const Now& at = cuda_on_cpu_now;
    char text[128];
    snprintf(text, sizeof text, ": block %u %u %u, thread %u %u %u", at.block.x, at.block.y, at.block.z, at.thread.x, at.thread.y, at.thread.z);
    return text;
}

std::string describe_of_block(const void* address) {
    if (!worker) return "";
    const char* at = static_cast<const char*>(address);
    for (unsigned slot = 0; slot <= MOST_DECLARATIONS; slot++) {
        const char* end = worker->slot_end(slot);
        if (at >= end - MOST_SHARED - PAGE && at < end + PAGE)
            return at < end ? "memory before shared memory" : "byte " + std::to_string(at - end + 1) + " past the end of shared memory";
    }
    if (worker->now && at < worker->now->stack && at >= worker->now->stack - PAGE) return "memory past the end of the thread's stack";
    return "";
}

void leave_fiber() {
    if (worker && worker->now) LEAVES_STACK(nullptr, worker->home_stack, worker->home_stack_size);
}

int run_grid(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic, void** arguments, unsigned long shuffle) {
    for (unsigned i = 0; i < kernel.count; i++) {
        const void* pointer = kernel.pointers[i] ? *static_cast<void**>(arguments[i]) : nullptr;
        if (pointer && !is_device_memory(pointer)) {
            complain("%s: argument %u points to memory of the host", kernel.name, i);
            count(FAULTS);
            return ILLEGAL_ADDRESS;
        }
    }
    std::unique_ptr<Worker> own = workers().take();
    own->kernel = &kernel;
    own->arguments = arguments;
    own->dynamic = dynamic;
    own->shuffled = shuffle;
    own->random.state = shuffle;
    size_t blocks = size_t(grid.x) * grid.y * grid.z;
    // A step that shares no factor with the number of blocks visits each once.
    size_t first = 0, step = 1;
    if (shuffle) {
        first = own->random.below(blocks);
        do step = 1 + own->random.below(blocks);
        while (std::gcd(step, blocks) != 1);
    }
    worker = own.get();
    int error = on_device(kernel.name, [&] {
        Now& at = cuda_on_cpu_now;
        at.grid_dim = grid;
        at.block_dim = block;
        at.threads = block.x * block.y * block.z;
        size_t index = first;
        for (size_t i = 0; i < blocks; i++) {
            at.block = {unsigned(index % grid.x), unsigned(index / grid.x % grid.y), unsigned(index / grid.x / grid.y)};
            own->run_block();
            index = (index + step) % blocks;
        }
    });
    if (error) {
        if (own->now) ENTERS_STACK(own->home_fake_stack, nullptr, nullptr);
        own->abandon();
    }
    worker = nullptr;
    workers().give(std::move(own));
    return error;
}

} // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {
void cuda_on_cpu_barrier(int line) {
    Worker& all = *worker;
    all.begin_waiting();
    unsigned threads = cuda_on_cpu_now.threads;
    if (all.alive < threads)
        stop_block(LAUNCH_FAILED, std::to_string(threads - all.alive) + " threads of the block ended without reaching __syncthreads() in line " +
                                      std::to_string(line));
    if (all.at_barrier.empty())
        all.barrier_line = line;
    else if (all.barrier_line != line)
        stop_block(LAUNCH_FAILED, "threads of the block wait at different barriers, in lines " + std::to_string(all.barrier_line) + " and " +
                                      std::to_string(line));
    all.at_barrier.push_back(all.now);
    if (all.at_barrier.size() == threads) {
        if (!all.shuffled) all.at_barrier.pop_back(); // the last to come goes on
        all.wake(all.at_barrier);
        if (!all.shuffled) return;
    }
    all.park();
}

void cuda_on_cpu_exchange(unsigned lanes, const void* mine, void* theirs, unsigned size, unsigned from) {
    Worker& all = *worker;
    all.begin_waiting();
    unsigned thread = thread_index(), warp = thread / 32;
    if (!(lanes >> thread % 32 & 1)) stop_block(LAUNCH_FAILED, "exchanges with lanes among which it is not itself");
    Lane& lane = all.lanes[thread];
    lane = {all.now, lanes, from, size, theirs, {}};
    memcpy(lane.value, mine, size);
    all.arrived[warp] |= 1u << thread % 32;
    if (all.exchange_within(warp, lanes, all.shuffled ? nullptr : all.now) && !all.shuffled) return;
    all.park();
}

void cuda_on_cpu_thread_ended() {
    Worker& all = *worker;
    unsigned thread = thread_index(), warp = thread / 32;
    all.alive--;
    all.warp_alive[warp] &= ~(1u << thread % 32);
    if (!all.at_barrier.empty())
        stop_block(LAUNCH_FAILED, "ends while others of the block wait at __syncthreads() in line " + std::to_string(all.barrier_line));
    for (unsigned lane = 0; lane < 32; lane++)
        if (all.arrived[warp] >> lane & 1) all.exchange_within(warp, all.lanes[warp * 32 + lane].lanes, nullptr);
}

void cuda_on_cpu_assert(const char* what, const char* file, int line) {
    const char* slash = strrchr(file, '/');
    stop_block(ASSERT, std::string(slash ? slash + 1 : file) + ":" + std::to_string(line) + ": assertion `" + what + "` failed");
}

void cuda_on_cpu_refuse(const char* what) { stop_block(NOT_SUPPORTED, std::string(what) + " is not emulated"); }

void* cuda_on_cpu_shared(const void* key, size_t size) {
    Worker& all = *worker;
    if (!key) return all.slot_end(MOST_DECLARATIONS) - all.dynamic;
    for (unsigned i = 0; i < all.declarations; i++)
        if (all.declared[i].key == key) return all.declared[i].memory;
    all.shared_bytes += size;
    if (all.shared_bytes > MOST_SHARED)
        stop_block(INVALID_VALUE, "needs " + std::to_string(all.shared_bytes) + " bytes of shared memory or more, of 48 KiB");
    if (all.declarations == MOST_DECLARATIONS) stop_block(NOT_SUPPORTED, "more than 16 declarations of shared memory");
    char* memory = all.slot_end(all.declarations) - size;
    memset(memory, 0xff, size);
    all.declared[all.declarations++] = {key, memory};
    return memory;
}
}
