/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Where the TCP or UDP header of a packet is, if the packet is sound enough to write into.
 *
 *   Ethernet | 0 to 2 VLAN tags | IPv4, options              | TCP or UDP | ...
 *                               | IPv6, 0 to 4 extension hdrs |
 *                               ^ network                     ^ transport       ^ end: what IP says, not the frame
 *
 * Any bytes are safe input: what is short, contradicts itself or is not understood has no place to write, and says why. Of the
 * fragments of a packet only the first has a place. An authentication header covers what follows, so it ends the walk.
 * Tunnels are not looked into.
 */
#ifndef POSEIDON_PACKET_H
#define POSEIDON_PACKET_H

#include "port.h"

/* Why a packet has no place to write. The numbers are those of counters. */
enum packet_place {
	PACKET_FOUND = 0,
	PACKET_NOT_IP,
	PACKET_MALFORMED, /* shorter than it says, or a length that cannot be */
	PACKET_FRAGMENT,  /* not the first of its packet */
	PACKET_OTHER_PROTOCOL,
	PACKET_PLACES,
};

enum {
	IP_TCP = 6,
	IP_UDP = 17,
	IPV6_HOP_BY_HOP = 0,
	IPV6_ROUTING = 43,
	IPV6_FRAGMENT = 44,
	IPV6_DESTINATION = 60,
	/* More than anybody sends; RFC 8200 section 4.1 lists them in this order, each once but the last twice. */
	IPV6_MOST_EXTENSIONS = 4,
};

/* A TCP segment or UDP datagram, or the first fragment of one. */
struct packet {
	u32 network;
	u32 transport;
	u32 end;
	u8 version;
	u8 protocol;
	u8 traffic_class; /* its last two bits are ECN's */
	u8 is_first_fragment;
};

struct ethernet_header {
	u8 addresses[12];
	u16 type;
};

struct vlan_tag {
	u16 control;
	u16 type;
};

struct ipv4_header {
	u8 version_and_length;
	u8 traffic_class;
	u16 total_bytes;
	u16 id;
	u16 fragment; /* 3 flags, of which the last says that more follow, and the place in units of 8 bytes */
	u8 ttl;
	u8 protocol;
	u16 checksum;
	u8 source[4];
	u8 destination[4];
};

struct ipv6_header {
	u16 version_and_class; /* 4 bits, 8 bits; the flow label goes on below */
	u16 flow_label;
	u16 payload_bytes;
	u8 next;
	u8 hop_limit;
	u8 source[16];
	u8 destination[16];
};

struct ipv6_extension {
	u8 next;
	u8 further_octets; /* 8 bytes each, after the first 8; of a fragment header, reserved */
	u16 fragment;      /* of a fragment header: the place in units of 8 bytes, 2 bits, and whether more follow */
};

/* Copies a header, which may lie in several pieces. */
#define packet_load(skb, offset, into) (bpf_skb_load_bytes(skb, offset, into, sizeof(*(into))) == 0)

static inline enum packet_place packet_find_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv4_header ip;
	u32 header_bytes, total;
	u16 fragment;

	if (!packet_load(skb, packet->network, &ip))
		return PACKET_MALFORMED;
	header_bytes = (ip.version_and_length & 15) * 4;
	total = bpf_ntohs(ip.total_bytes);
	if (ip.version_and_length >> 4 != 4 || header_bytes < sizeof(ip) || total < header_bytes)
		return PACKET_MALFORMED;
	fragment = bpf_ntohs(ip.fragment);
	if (fragment & 0x1fff)
		return PACKET_FRAGMENT;
	packet->version = 4;
	packet->traffic_class = ip.traffic_class;
	packet->protocol = ip.protocol;
	packet->is_first_fragment = fragment >> 13 & 1;
	packet->transport = packet->network + header_bytes;
	packet->end = packet->network + total;
	return PACKET_FOUND;
}

static inline enum packet_place packet_find_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6_header ip;

	if (!packet_load(skb, packet->network, &ip))
		return PACKET_MALFORMED;
	/* A jumbogram says 0 and is refused by its end. */
	if (bpf_ntohs(ip.version_and_class) >> 12 != 6)
		return PACKET_MALFORMED;
	packet->version = 6;
	packet->traffic_class = (u8)(bpf_ntohs(ip.version_and_class) >> 4);
	packet->protocol = ip.next;
	packet->is_first_fragment = 0;
	packet->transport = packet->network + sizeof(ip);
	packet->end = packet->transport + bpf_ntohs(ip.payload_bytes);
	for (int seen = 0; seen < IPV6_MOST_EXTENSIONS; seen++) {
		struct ipv6_extension extension;
		u32 bytes = 8;

		if (packet->protocol != IPV6_HOP_BY_HOP && packet->protocol != IPV6_ROUTING &&
		    packet->protocol != IPV6_DESTINATION && packet->protocol != IPV6_FRAGMENT)
			break;
		if (!packet_load(skb, packet->transport, &extension))
			return PACKET_MALFORMED;
		if (packet->protocol == IPV6_FRAGMENT) {
			if (bpf_ntohs(extension.fragment) >> 3)
				return PACKET_FRAGMENT;
			packet->is_first_fragment = bpf_ntohs(extension.fragment) & 1;
		} else {
			bytes += extension.further_octets * 8;
		}
		packet->transport += bytes;
		packet->protocol = extension.next;
	}
	return PACKET_FOUND;
}

/* Finds the transport header. `end` is then within the frame and `transport` before it; nothing else is known of the two. */
static inline enum packet_place packet_find(struct __sk_buff *skb, struct packet *packet)
{
	struct ethernet_header ethernet;
	struct vlan_tag tag;
	enum packet_place place;
	u16 type;

	if (!packet_load(skb, 0, &ethernet))
		return PACKET_MALFORMED;
	packet->network = sizeof(ethernet);
	type = bpf_ntohs(ethernet.type);
	for (int tags = 0; tags < 2 && (type == 0x8100 || type == 0x88a8); tags++) {
		if (!packet_load(skb, packet->network, &tag))
			return PACKET_MALFORMED;
		packet->network += sizeof(tag);
		type = bpf_ntohs(tag.type);
	}
	if (type == 0x0800)
		place = packet_find_ipv4(skb, packet);
	else if (type == 0x86dd)
		place = packet_find_ipv6(skb, packet);
	else
		place = PACKET_NOT_IP;
	if (place != PACKET_FOUND)
		return place;
	if (packet->protocol != IP_TCP && packet->protocol != IP_UDP)
		return PACKET_OTHER_PROTOCOL;
	if (packet->end > skb->len || packet->transport > packet->end)
		return PACKET_MALFORMED;
	return PACKET_FOUND;
}

/*
 * The same for what nearly all packets are: untagged, IPv4 without options, whole, and its headers in one piece with `bytes` of what is
 * above IP. Gives where those are, or 0 where the packet is anything else, which packet_find() must then be asked. A header is read
 * where it lies; each that is copied costs 10 ns.
 */
static inline void *packet_find_plain(struct __sk_buff *skb, struct packet *packet, u32 bytes)
{
	struct ethernet_header *ethernet = (void *)(unsigned long)skb->data;
	struct ipv4_header *ip = (void *)(ethernet + 1);
	void *above = ip + 1, *end = (void *)(unsigned long)skb->data_end;
	u32 total;

	if (above + bytes > end)
		return 0;
	/* Version 4 and five words; neither a part of a packet nor followed by one. */
	if (ethernet->type != bpf_htons(0x0800) || ip->version_and_length != 0x45 || ip->fragment & bpf_htons(0x3fff))
		return 0;
	total = bpf_ntohs(ip->total_bytes);
	if (total < sizeof(*ip) + bytes || sizeof(*ethernet) + total > skb->len)
		return 0;
	packet->network = sizeof(*ethernet);
	packet->transport = sizeof(*ethernet) + sizeof(*ip);
	packet->end = sizeof(*ethernet) + total;
	packet->version = 4;
	packet->traffic_class = ip->traffic_class;
	packet->protocol = ip->protocol;
	packet->is_first_fragment = 0;
	return above;
}

/* The word of a TCP header that has its length and its flags. */
#define TCP_WORD_AT 12
#define TCP_CHECKSUM_AT 16
#define TCP_HEADER_BYTES 20
#define UDP_CHECKSUM_AT 6

/* Reads that word and gives the bytes of the whole TCP header, or 0 where they are not there. */
static inline u32 packet_tcp_header(struct __sk_buff *skb, const struct packet *packet, u16 *word)
{
	u32 bytes;

	if (packet->end - packet->transport < TCP_HEADER_BYTES)
		return 0;
	if (!packet_load(skb, packet->transport + TCP_WORD_AT, word))
		return 0;
	*word = bpf_ntohs(*word);
	bytes = (u32)(*word >> 12) * 4;
	return bytes >= TCP_HEADER_BYTES && bytes <= packet->end - packet->transport ? bytes : 0;
}

#endif
