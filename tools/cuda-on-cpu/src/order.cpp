// Streams. Without a seed an operation is done when it is asked for. With one it waits in its stream until something
// needs it, and then operations of all streams that may go on are done in a drawn order: what CUDA does not promise to
// be in order is not in order.
#include "stand_in.h"
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

namespace cuda_on_cpu {
namespace {

struct Operation {
    std::function<int(unsigned long)> work;
    unsigned long shuffle;
    std::vector<std::shared_ptr<Operation>> after;
    bool done = false;
};
using Shared = std::shared_ptr<Operation>;

struct Stream {
    std::deque<Shared> waiting;
    Shared last;
    std::vector<Shared> next_after; // what its next operation waits for
    bool orders_with_null = true;
    unsigned long operations = 0;
};

struct Event {
    Shared recorded;
    std::shared_ptr<std::atomic<double>> milliseconds = std::make_shared<std::atomic<double>>(0);
};

const size_t MOST_WAITING = 256; // memory that is to be freed waits with them

struct Order {
    std::mutex lock;
    unsigned long seed = setting("CUDA_ON_CPU_SEED", 0);
    Random random{seed};
    std::shared_ptr<Stream> null = std::make_shared<Stream>();
    std::vector<std::shared_ptr<Stream>> streams{null};

    std::shared_ptr<Stream> add(bool orders_with_null) {
        auto stream = std::make_shared<Stream>();
        stream->orders_with_null = orders_with_null;
        std::lock_guard<std::mutex> hold(lock);
        streams.push_back(stream);
        return stream;
    }

    bool run_one() {
        std::vector<Stream*> able;
        for (auto& stream : streams) {
            if (stream->waiting.empty()) continue;
            bool free = true;
            for (auto& other : stream->waiting.front()->after) free &= other->done;
            if (free) able.push_back(stream.get());
        }
        if (able.empty()) return false;
        Stream* stream = able[random.below(able.size())];
        Shared one = stream->waiting.front();
        stream->waiting.pop_front();
        spoil(one->work(one->shuffle));
        one->done = true;
        one->work = nullptr;
        one->after.clear();
        return true;
    }
    void run_until(const Shared& wanted) {
        while (wanted && !wanted->done && run_one()) {}
    }
    void run_all() {
        while (run_one()) {}
        // Nobody else knows the stream of a thread that ended.
        streams.erase(std::remove_if(streams.begin(), streams.end(), [](auto& stream) { return stream.use_count() == 1; }),
                      streams.end());
    }
};
Order& order() {
    static Order* all = new Order;
    return *all;
}

Stream& stream_of(void* handle) {
    static thread_local std::shared_ptr<Stream> own;
    switch (reinterpret_cast<size_t>(handle)) {
    case 0: // the null stream
    case 1: return *order().null;
    case 2: // the calling thread's
        if (!own) own = order().add(true);
        return *own;
    default: return **static_cast<std::shared_ptr<Stream>*>(handle);
    }
}

Shared enqueue(Stream& stream, std::function<int(unsigned long)> work) {
    Order& all = order();
    auto one = std::make_shared<Operation>();
    one->work = std::move(work);
    one->shuffle = Random{all.seed ^ (++stream.operations << 20)}.next() | 1;
    one->after.swap(stream.next_after);
    if (&stream == all.null.get()) {
        for (auto& other : all.streams)
            if (other->orders_with_null && other->last && !other->last->done) one->after.push_back(other->last);
    } else if (stream.orders_with_null && all.null->last && !all.null->last->done) {
        one->after.push_back(all.null->last);
    }
    stream.waiting.push_back(one);
    stream.last = one;
    if (stream.waiting.size() > MOST_WAITING) all.run_until(one);
    return one;
}

double clock_now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

bool is_ordered_later() { return order().seed; }

int submit(void* stream, std::function<int(unsigned long)> work) {
    if (!is_ordered_later()) {
        spoil(work(0));
        return SUCCESS; // a failure shows at the next call, as on a GPU
    }
    Stream& into = stream_of(stream);
    std::lock_guard<std::mutex> hold(order().lock);
    enqueue(into, std::move(work));
    return SUCCESS;
}

void synchronise_stream(void* stream) {
    if (!is_ordered_later()) return;
    Stream& all = stream_of(stream);
    std::lock_guard<std::mutex> hold(order().lock);
    order().run_until(all.last);
}

void synchronise_device() {
    if (!is_ordered_later()) return;
    std::lock_guard<std::mutex> hold(order().lock);
    order().run_all();
}

} // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {
int cuStreamCreate(void** out, unsigned flags) {
    *out = new std::shared_ptr<Stream>(order().add(!(flags & 1))); // 1: does not order with the null stream
    return sticky();
}
int cuStreamDestroy_v2(void* stream) { // what waits in it is still done
    std::lock_guard<std::mutex> hold(order().lock);
    delete static_cast<std::shared_ptr<Stream>*>(stream);
    return SUCCESS;
}
int cuStreamSynchronize(void* stream) {
    count(SYNCHRONISATIONS);
    synchronise_stream(stream);
    return sticky();
}
int cuStreamIsCapturing(void*, int* status) {
    *status = 0;
    return sticky();
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    if (!is_ordered_later()) return sticky();
    Stream& waits = stream_of(stream);
    std::lock_guard<std::mutex> hold(order().lock);
    Shared recorded = static_cast<Event*>(event)->recorded;
    if (recorded && !recorded->done) waits.next_after.push_back(recorded);
    return sticky();
}
int cuEventCreate(void** out, unsigned) {
    *out = new Event;
    return sticky();
}
int cuEventDestroy_v2(void* event) {
    delete static_cast<Event*>(event);
    return SUCCESS;
}
int cuEventRecord(void* event, void* stream) {
    auto at = static_cast<Event*>(event)->milliseconds;
    if (!is_ordered_later()) {
        *at = clock_now();
        return sticky();
    }
    Stream& into = stream_of(stream);
    std::lock_guard<std::mutex> hold(order().lock);
    static_cast<Event*>(event)->recorded = enqueue(into, [at](unsigned long) {
        *at = clock_now();
        return SUCCESS;
    });
    return sticky();
}
int cuEventSynchronize(void* event) {
    count(SYNCHRONISATIONS);
    if (!is_ordered_later()) return sticky();
    std::lock_guard<std::mutex> hold(order().lock);
    order().run_until(static_cast<Event*>(event)->recorded);
    return sticky();
}
int cuEventQuery(void* event) {
    if (!is_ordered_later()) return sticky();
    std::lock_guard<std::mutex> hold(order().lock);
    Shared recorded = static_cast<Event*>(event)->recorded;
    if (recorded && !recorded->done) {
        order().run_one(); // who asks in a loop comes to an end
        return NOT_READY;
    }
    return sticky();
}
int cuEventElapsedTime_v2(float* out, void* from, void* to) {
    *out = *static_cast<Event*>(to)->milliseconds - *static_cast<Event*>(from)->milliseconds;
    return sticky();
}
int cuEventElapsedTime(float* out, void* from, void* to) { return cuEventElapsedTime_v2(out, from, to); }
}
