// A C++ class over the C interface, and a closed loop of two flows in one queue.
#include "poseidon_laws.h"

#include <array>
#include <cstdio>
#include <stdexcept>

namespace {

// Owns one flow. The state lies inside of the object, so there is no allocation.
class Controller {
public:
    Controller(const char *law, const char *params, const poseidon_path &path, std::uint32_t signals)
    {
        poseidon_error error{};
        error.struct_size = sizeof(error);
        if (poseidon_law_init(&law_, sizeof(law_), law, params, &path, signals, &error) != POSEIDON_OK)
            throw std::invalid_argument(error.message);
    }
    ~Controller() { (void)poseidon_law_destroy(&law_); }
    // The state may be copied as bytes.
    Controller(const Controller &) = default;
    Controller &operator=(const Controller &) = default;

    void on_ack(const poseidon_ack &ack) { check(poseidon_law_on_ack(&law_, &ack)); }

    double window() const
    {
        poseidon_decision decision{};
        decision.struct_size = sizeof(decision);
        check(poseidon_law_decision(&law_, &decision));
        return static_cast<double>(decision.window_q24) / static_cast<double>(POSEIDON_ONE_PACKET);
    }

private:
    static void check(poseidon_status status)
    {
        if (status < 0)
            throw std::logic_error(poseidon_error_text(status));
    }

    poseidon_law law_;
};

// Two flows share a link of one packet per 160 ns. Each round trip acknowledges a window of each flow.
void share_a_queue(const char *law)
{
    poseidon_path path{};
    path.struct_size = sizeof(path);
    path.mtu_bytes = 4096;
    path.line_rate_bps = 200000000000;
    path.base_rtt_ns = 9900;
    const std::uint32_t signals = POSEIDON_SIGNAL_RTT | POSEIDON_SIGNAL_MAX_HOP_DELAY |
                                  POSEIDON_SIGNAL_ENDPOINT_DELAY | POSEIDON_SIGNAL_HOP_COUNT;
    std::array<Controller, 2> flows{Controller{law, nullptr, path, signals},
                                    Controller{law, nullptr, path, signals}};
    std::uint64_t now = 0;
    for (int round = 0; round < 400; round++) {
        const double packets = flows[0].window() + flows[1].window();
        const double drain_ns = packets * 160.0;
        const std::uint64_t queue = drain_ns > 9900.0 ? static_cast<std::uint64_t>(drain_ns - 9900.0) : 0;
        now += 9900 + queue;
        for (std::size_t i = 0; i < flows.size(); i++) {
            // The second flow starts later.
            if (i == 1 && round < 100)
                continue;
            poseidon_ack ack{};
            ack.struct_size = sizeof(ack);
            ack.flags = POSEIDON_ACK_MAX_HOP_DELAY;
            ack.now_ns = now;
            ack.rtt_ns = 9900 + queue;
            ack.max_hop_delay_ns = queue;
            ack.hop_count = 5;
            ack.packets = static_cast<std::uint32_t>(flows[i].window()) + 1;
            ack.bytes = ack.packets * 4096ULL;
            flows[i].on_ack(ack);
        }
    }
    std::printf("%s: windows of %.1f and %.1f packets\n", law, flows[0].window(), flows[1].window());
}

} // namespace

int main()
{
    share_a_queue("poseidon");
    share_a_queue("swift");
    try {
        share_a_queue("hpcc");
    } catch (const std::invalid_argument &error) {
        std::printf("hpcc: %s\n", error.what());
    }
    return 0;
}
