// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Measures queueing delays: tracepoints see each packet when it joins and leaves the root queue of a monitored port.
 *
 *   qdisc_enqueue: since[packet] = now            qdisc_dequeue: delay = now - since[packet]
 *
 * The programs do not modify packets. Tests compare the stamps of switch.bpf.c with these delays, and the testbed
 * records the delays. Both tracepoints run under the queue lock, so a port's counters need no other lock.
 * Limits     A shaper may segment a packet (TBF, if it exceeds the burst). The segments have no enqueue time.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_LRU_HASH = 9,
};

#define KERNEL_STRUCT __attribute__((preserve_access_index))

struct ns_common {
	u32 inum;
} KERNEL_STRUCT;

struct net {
	struct ns_common ns;
} KERNEL_STRUCT;

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} KERNEL_STRUCT;

struct netdev_queue {
	struct net_device *dev;
} KERNEL_STRUCT;

struct gnet_stats_queue {
	u32 backlog;
} KERNEL_STRUCT;

struct Qdisc {
	struct gnet_stats_queue qstats;
} KERNEL_STRUCT;

struct sk_buff {
	struct sk_buff *next;
	u32 len;
} KERNEL_STRUCT;

/* src/sojourn.rs has both structs. */
struct port {
	u32 netns; /* network namespace inode */
	u32 device;
};

struct queue {
	u64 packets;
	u64 bytes;
	u64 delay;   /* of the last packet that left, ns */
	u64 waiting; /* backlog in bytes, after the last packet joined or left */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port);
	__type(value, struct queue);
} watched SEC(".maps");

/*
 * Enqueue times by packet address. Packets that are dropped in the queue never leave, so the oldest entries are
 * evicted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 18);
	__type(key, u64);
	__type(value, u64);
} since SEC(".maps");

static struct queue *queue_of(const struct netdev_queue *port)
{
	struct port key = {
		.netns = port->dev->nd_net.net->ns.inum,
		.device = (u32)port->dev->ifindex,
	};

	return bpf_map_lookup_elem(&watched, &key);
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(joins, struct Qdisc *qdisc, const struct netdev_queue *port, struct sk_buff *packet)
{
	struct queue *queue = queue_of(port);
	u64 key = (u64)packet, now = bpf_ktime_get_ns();

	if (!queue)
		return 0;
	bpf_map_update_elem(&since, &key, &now, 0);
	queue->waiting = qdisc->qstats.backlog;
	return 0;
}

/* One call may report a list of packets. */
#define MAX_LIST 64

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(leaves, struct Qdisc *qdisc, const struct netdev_queue *port, int packets, struct sk_buff *packet)
{
	struct queue *queue;
	u64 now = bpf_ktime_get_ns();

	/* A shaper may have no packet to send yet. */
	if (!packet)
		return 0;
	queue = queue_of(port);
	if (!queue)
		return 0;
	queue->waiting = qdisc->qstats.backlog;
	for (int i = 0; i < MAX_LIST && packet; i++) {
		u64 key = (u64)packet;
		u64 *joined = bpf_map_lookup_elem(&since, &key);

		queue->packets++;
		queue->bytes += packet->len;
		if (joined) {
			queue->delay = now - *joined;
			bpf_map_delete_elem(&since, &key);
		}
		packet = packet->next;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
