// A kernel that touches what it must not is stopped like on a GPU: its launch ends and the context is spoiled.
#include "stand_in.h"
#include <csignal>
#include <cstdlib>
#include <ucontext.h>

namespace cuda_on_cpu {

thread_local Escape* escape __attribute__((tls_model("initial-exec"))) = nullptr;

static struct sigaction before[NSIG];

static void on_signal(int number, siginfo_t* info, void* context) {
    Escape* here = escape;
    if (!here) { // not ours: a fault of the host's code
        struct sigaction& old = before[number];
        if (old.sa_flags & SA_SIGINFO) return old.sa_sigaction(number, info, context);
        if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN)
            sigaction(number, &old, nullptr); // the instruction faults again, now without us
        else
            old.sa_handler(number);
        return;
    }
    // Signal stacks are small: what happened is only noted, and told after leaving this one.
    here->error = ILLEGAL_ADDRESS;
    here->address = info->si_addr;
#ifdef __x86_64__
    here->writes = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#endif
    leave(ILLEGAL_ADDRESS);
}

static void install() {
    struct sigaction ours = {};
    ours.sa_sigaction = on_signal;
    sigemptyset(&ours.sa_mask);
    // Not deferred, since the handler is left by a jump, which restores no mask.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS}) sigaction(number, &ours, &before[number]);
}

// Frees the signal stack of a thread that had none.
struct SignalStack {
    void* memory = nullptr;
    ~SignalStack() {
        if (!memory) return;
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
        free(memory);
    }
};

void prepare_thread_for_faults() {
    static bool installed = (install(), true);
    (void)installed;
    static thread_local bool ready = false;
    if (ready) return;
    ready = true;
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && now.ss_flags & SS_DISABLE) { // an overrun stack cannot hold a handler
        static thread_local SignalStack owned;
        const size_t size = 64 << 10;
        now.ss_sp = owned.memory = malloc(size);
        now.ss_size = size;
        now.ss_flags = 0;
        sigaltstack(&now, nullptr);
    }
}

void leave(int error) {
    Escape* here = escape;
    escape = nullptr;
    if (!here) abort(); // device code outside a launch: only a fault of the stand-in itself comes here
    here->error = error;
    leave_fiber();
    _longjmp(here->away, 1);
}

int report_fault(const Escape& fault, const char* what) {
    count(FAULTS);
    if (fault.error == ILLEGAL_ADDRESS) {
        std::string it = describe_of_block(fault.address);
        if (it.empty()) it = describe(fault.address);
        complain("%s%s: %s %s", what, where().c_str(), fault.writes ? "writes to" : "touches", it.c_str());
    }
    return fault.error;
}

} // namespace cuda_on_cpu
