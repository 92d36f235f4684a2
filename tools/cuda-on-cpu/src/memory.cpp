// Device memory: host memory in which whatever touches a byte that is not an allocation's own is found out.
//
// An allocation ends at a page that nobody may touch, is filled with 0xFF (NaN), and when it is freed nobody may touch
// it either, until its pages are used again, which is as late as the quarantine allows. What lies before it in its first
// page is looked at when it is freed. On request it begins behind such a page instead, and what lies behind it in its
// last page is looked at.
#include "stand_in.h"
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>

namespace cuda_on_cpu {
namespace {

const size_t PAGE = sysconf(_SC_PAGESIZE);
const size_t ALIGNMENT = 256; // of CUDA's own allocations
const size_t QUARANTINE_REGIONS = 512, QUARANTINE_BYTES = size_t(256) << 20;
const size_t KEPT_BYTES = size_t(1) << 20; // a larger region gives its memory back when it leaves the quarantine
const unsigned char POISON = 0xff;

// Addresses are reserved once and never given back, so that each address belongs to one region for good.
struct Reservation {
    char *begin = nullptr, *next = nullptr, *end = nullptr;

    void reserve(int protection) {
        for (size_t size = size_t(1) << 40; !begin && size >= size_t(1) << 30; size /= 2) {
            void* at = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (at != MAP_FAILED) begin = static_cast<char*>(at), next = begin + PAGE, end = begin + size; // a page before the first region
        }
    }
    bool has(const void* at) const { return at >= begin && at < end; }
};

struct Region {
    char* begin;
    size_t pages; // that can be used; a page that cannot lies before and behind
    bool guarded;
    bool live;
    char *open, *shut; // pages that the allocation can be touched in
    char* start;       // of the allocation
    size_t size;
    unsigned long serial;

    char* end() const { return begin + pages * PAGE; }
};

struct Memory {
    std::mutex lock;
    Reservation guarded, open;
    std::map<const char*, Region> regions; // by their begin
    std::unordered_map<Handle, Region*> live;
    std::map<std::pair<bool, size_t>, std::vector<Region*>> free; // by kind and pages
    std::deque<Region*> quarantine;
    size_t quarantined_bytes = 0, live_bytes = 0, guarded_live = 0;
    unsigned long serial = 0;
    bool as_a_gpu_aligns = setting("CUDA_ON_CPU_ALIGNED", 0);
    bool at_the_front = setting("CUDA_ON_CPU_FRONT", 0);
    // Each guarded allocation splits a mapping, and the kernel allows only so many.
    size_t most_guarded = 20000;
    size_t physical = size_t(sysconf(_SC_PHYS_PAGES)) * PAGE;

    Memory() {
        guarded.reserve(PROT_NONE);
        open.reserve(PROT_READ | PROT_WRITE);
        if (FILE* file = fopen("/proc/sys/vm/max_map_count", "r")) {
            size_t most;
            if (fscanf(file, "%zu", &most) == 1) most_guarded = most / 3;
            fclose(file);
        }
        most_guarded = setting("CUDA_ON_CPU_GUARDED", most_guarded);
    }

    Region* take(size_t pages, bool with_guard) {
        // Of many pages a few more are taken, so that a region serves several sizes.
        for (size_t step = 8; pages > 16 * step; step *= 2) pages = (pages + step - 1) / step * step;
        auto& unused = free[{with_guard, pages}];
        if (!unused.empty()) {
            Region* region = unused.back();
            unused.pop_back();
            return region;
        }
        Reservation& from = with_guard ? guarded : open;
        if (!from.begin || size_t(from.end - from.next) < (pages + 1) * PAGE) return nullptr;
        Region region{from.next, pages, with_guard, false, nullptr, nullptr, nullptr, 0, 0};
        from.next += (pages + 1) * PAGE;
        return &(regions[region.begin] = region);
    }

    void retire(Region* region) {
        quarantine.push_back(region);
        quarantined_bytes += region->pages * PAGE;
        while (quarantine.size() > QUARANTINE_REGIONS || (quarantined_bytes > QUARANTINE_BYTES && quarantine.size() > 1)) {
            Region* oldest = quarantine.front();
            quarantine.pop_front();
            quarantined_bytes -= oldest->pages * PAGE;
            if (oldest->pages * PAGE > KEPT_BYTES) madvise(oldest->begin, oldest->pages * PAGE, MADV_DONTNEED);
            free[{oldest->guarded, oldest->pages}].push_back(oldest);
        }
    }

    Region* region_of(const void* address) {
        auto after = regions.upper_bound(static_cast<const char*>(address));
        return after == regions.begin() ? nullptr : &std::prev(after)->second;
    }
};

Memory& memory() {
    static Memory* all = new Memory; // never destroyed: tensors in statics are freed after everything else
    return *all;
}

// How many bytes around the allocation, in pages it could write to, are not as they were left.
size_t damage(const Region& region, const char** first) {
    size_t found = 0;
    auto look = [&](const char* from, const char* to) {
        // Nearly always all is well: each byte is poison if the first is and each is like the one before.
        if (from == to || ((unsigned char)*from == POISON && !memcmp(from, from + 1, to - from - 1))) return;
        for (const char* at = from; at < to; at++)
            if ((unsigned char)*at != POISON && !found++) *first = at;
    };
    look(region.open, region.start);
    look(region.start + region.size, region.shut);
    return found;
}

std::string name_of(const Region& region) {
    return "allocation " + std::to_string(region.serial) + " of " + std::to_string(region.size) + " bytes";
}

} // namespace

int allocate(size_t size, Handle* out) {
    Memory& all = memory();
    std::lock_guard<std::mutex> hold(all.lock);
    if (size > all.physical || all.live_bytes + size > all.physical) return OUT_OF_MEMORY;
    bool with_guard = all.guarded_live < all.most_guarded;
    if (!with_guard) {
        static bool once = (complain("more than %zu allocations are held: further ones have no guard page, and only "
                                     "writes outside them are found, when they are freed", all.most_guarded), true);
        (void)once;
    }
    // Without a guard the bytes behind it are watched as those before it.
    size_t padded = !with_guard ? (size / ALIGNMENT + 2) * ALIGNMENT
                    : all.as_a_gpu_aligns ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
                                          : size;
    size_t bytes = (padded + PAGE - 1) / PAGE * PAGE;
    Region* region = all.take(bytes / PAGE, with_guard);
    if (!region) return OUT_OF_MEMORY;
    bool front = all.at_the_front && with_guard;
    region->open = front ? region->begin : region->end() - bytes;
    region->shut = region->open + bytes;
    region->start = front ? region->open : region->shut - padded;
    region->size = size;
    if (with_guard && mprotect(region->open, bytes, PROT_READ | PROT_WRITE)) {
        all.free[{true, region->pages}].push_back(region);
        return OUT_OF_MEMORY;
    }
    memset(region->open, POISON, bytes);
    region->live = true;
    region->serial = ++all.serial;
    all.live_bytes += size;
    all.guarded_live += with_guard;
    *out = Handle(region->start);
    all.live[*out] = region;
    return SUCCESS;
}

static Region* to_release(Memory& all, Handle start) {
    auto found = all.live.find(start);
    if (found != all.live.end()) return found->second;
    Region* region = all.region_of((void*)start);
    if (region && Handle(region->start) == start)
        complain("freed twice: %s", name_of(*region).c_str());
    else
        complain("freed, but never allocated: address %llx", start);
    count(FAULTS);
    return nullptr;
}
bool can_release(Handle start) {
    Memory& all = memory();
    std::lock_guard<std::mutex> hold(all.lock);
    return to_release(all, start);
}

int release(Handle start) {
    Memory& all = memory();
    std::lock_guard<std::mutex> hold(all.lock);
    Region* region = to_release(all, start);
    if (!region) return INVALID_VALUE;
    const char* first = nullptr;
    int error = SUCCESS;
    if (size_t bytes = damage(*region, &first)) {
        bool before = first < region->start;
        long away = before ? region->start - first : first - region->start - region->size + 1;
        complain("%s: %zu bytes outside it were written; the first is byte %ld %s", name_of(*region).c_str(), bytes, away,
                 before ? "before its start" : "past its end");
        count(FAULTS);
        error = ILLEGAL_ADDRESS;
    }
    if (region->guarded)
        mprotect(region->open, region->shut - region->open, PROT_NONE);
    else
        memset(region->begin, POISON, region->pages * PAGE);
    region->live = false;
    all.live.erase(start);
    all.live_bytes -= region->size;
    all.guarded_live -= region->guarded;
    all.retire(region);
    return error;
}

bool is_device_memory(const void* at) { return memory().guarded.has(at) || memory().open.has(at); }

bool holds(Handle at, size_t size, const char* what) {
    if (!size) return true;
    Memory& all = memory();
    std::lock_guard<std::mutex> hold(all.lock);
    Region* region = all.region_of((void*)at);
    char* from = (char*)at;
    if (region && region->live && from >= region->start && from + size <= region->start + region->size) return true;
    if (!region || from >= region->shut || from + size <= region->open)
        complain("%s: %zu bytes at %llx are not device memory", what, size, at);
    else
        complain("%s: %zu bytes from byte %ld on of %s%s", what, size, long(from - region->start), name_of(*region).c_str(),
                 region->live ? "" : ", which was freed");
    count(FAULTS);
    return false;
}

std::string describe(const void* address) {
    if (!is_device_memory(address)) return address < (void*)PAGE ? "a null pointer" : "not device memory";
    Memory& all = memory();
    std::lock_guard<std::mutex> hold(all.lock);
    const char* at = static_cast<const char*>(address);
    Region* region = all.region_of(at);
    // A guard page may also be what lies just before the next allocation, if that begins its pages.
    auto next = all.regions.upper_bound(at);
    if ((!region || at >= region->end()) && next != all.regions.end() && next->second.live) {
        const Region& after = next->second;
        if (!region || !region->live || after.start - at < at - (region->start + region->size))
            return std::to_string(after.start - at) + " bytes before the start of " + name_of(after);
    }
    if (!region) return "device memory that was never allocated";
    if (!region->live) return "inside memory that was freed: " + name_of(*region);
    if (at < region->start) return std::to_string(region->start - at) + " bytes before the start of " + name_of(*region);
    size_t past = at - (region->start + region->size) + 1;
    return "byte " + std::to_string(past) + " past the end of " + name_of(*region);
}

Held held() {
    Memory& all = memory();
    std::lock_guard<std::mutex> hold(all.lock);
    Held rest{all.live.size(), all.live_bytes, {}};
    for (auto& [start, region] : all.live) {
        if (rest.sizes.size() == 32) break;
        rest.sizes.push_back(region->size);
    }
    return rest;
}

} // namespace cuda_on_cpu
