// What the kernel decides by itself at the border. Compiled by clang in the build (`build.rs`),
// loaded by `linux/kernel`.
//
// | program | where it runs | what it does |
// |---|---|---|
// | `refuse` | tc, ingress of the border's interfaces | drops SYNs that match a blocked one |
// | `refuse_early` | XDP, in place of `refuse` | the same, before the network stack |
// | `refuse_new` | rule in RINGWAY-ASK (`xt_bpf`) | the same for UDP and translated addresses |
// | `triage` | rule in RINGWAY-CROSSING (`xt_bpf`) | passes what cannot be managed traffic |
// | `finished` | the rule behind it (`xt_bpf`) | passes what has been seen enough of |
//
// The first three are the connection cache; `refuse_early` runs in the driver. `triage` lets
// packets pass that no managed application can be in. `finished` lets those pass of which nothing
// more need be seen, and their connections for good.
//
// All lengths are in bytes, all times in nanoseconds since boot, addresses and ports in network
// order. The bounds and the form of the maps' keys and values are those of
// `linux/kernel/layout.rs`, from which the build writes `border.h`.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "border.h"

#define ALWAYS_INLINE static __attribute__((always_inline))

// A packet's ends and what follows its headers.
struct packet {
	struct address source, destination;
	__be16 source_port, destination_port;
	__u8 l4;
	__u8 tcp_flags;
	__u32 sequence, acknowledged;
	// Where the payload begins, and how long it is on the wire.
	__u32 payload_at, payload;
};

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

// What a packet is read from: a buffer of the network stack, or a driver's own.
struct source {
	struct __sk_buff *skb;
	void *data, *data_end;
};

// Headers begin and end before; what is further back is not read.
#define FAR 1023

ALWAYS_INLINE int load(const struct source *from, __u32 at, void *to, __u32 length)
{
	if (from->skb)
		return bpf_skb_load_bytes(from->skb, at, to, length);
	// The verifier has to see that it is not far.
	if (at > FAR)
		return -1;
	void *begin = from->data + at;

	if (begin + length > from->data_end)
		return -1;
	__builtin_memcpy(to, begin, length);
	return 0;
}

// Where a packet ends that does not say so itself.
ALWAYS_INLINE __u32 end_of(const struct source *from)
{
	return from->skb ? from->skb->len : from->data_end - from->data;
}

enum reading {
	// A whole packet of TCP or UDP.
	READ,
	// Neither, a fragment, or damaged.
	OTHER,
};

// Reads the transport's header at `at`; `end` is where the packet ends.
ALWAYS_INLINE enum reading read_transport(const struct source *from, __u32 at, __u32 end, struct packet *packet)
{
	__u8 header[14];
	__u32 length = 8;

	if (packet->l4 == IPPROTO_UDP) {
		if (load(from, at, header, 8))
			return OTHER;
		__u32 said = (__u32)header[4] << 8 | header[5];

		// One whose length says less than it has ends early; 0 is a jumbogram's.
		if (said >= 8 && at + said < end)
			end = at + said;
	} else if (packet->l4 == IPPROTO_TCP) {
		if (load(from, at, header, 14))
			return OTHER;
		length = (header[12] >> 4) * 4;
		packet->sequence = (__u32)header[4] << 24 | (__u32)header[5] << 16 | (__u32)header[6] << 8 | header[7];
		packet->acknowledged = (__u32)header[8] << 24 | (__u32)header[9] << 16 | (__u32)header[10] << 8 | header[11];
		packet->tcp_flags = header[13];
		if (length < 20)
			return OTHER;
	} else {
		return OTHER;
	}
	__builtin_memcpy(&packet->source_port, header, 2);
	__builtin_memcpy(&packet->destination_port, header + 2, 2);
	packet->payload_at = at + length;
	if (packet->payload_at > end)
		return OTHER;
	packet->payload = end - packet->payload_at;
	return READ;
}

ALWAYS_INLINE enum reading read_ipv4(const struct source *from, __u32 at, struct packet *packet)
{
	__u8 header[20];

	if (load(from, at, header, sizeof(header)))
		return OTHER;
	__u32 length = (header[0] & 0x0f) * 4, whole = (__u32)header[2] << 8 | header[3];
	// More fragments, or not the first.
	__u16 fragment = ((__u16)header[6] << 8 | header[7]) & 0x3fff;

	// Joined packets beyond 64 KiB say 0 (Linux' BIG TCP).
	if (!whole)
		whole = end_of(from) - at;
	if (length < 20 || whole < length || fragment)
		return OTHER;
	packet->l4 = header[9];
	packet->source.word[2] = packet->destination.word[2] = bpf_htonl(0xffff);
	__builtin_memcpy(&packet->source.word[3], header + 12, 4);
	__builtin_memcpy(&packet->destination.word[3], header + 16, 4);
	return read_transport(from, at + length, at + whole, packet);
}

ALWAYS_INLINE enum reading read_ipv6(const struct source *from, __u32 at, struct packet *packet)
{
	__u8 header[40], extension[2];

	if (load(from, at, header, sizeof(header)))
		return OTHER;
	__u32 whole = (__u32)header[4] << 8 | header[5], end = at + 40 + whole;
	__u8 next = header[6];

	if (!whole)
		end = end_of(from);
	__builtin_memcpy(&packet->source, header + 8, 16);
	__builtin_memcpy(&packet->destination, header + 24, 16);
	at += 40;
	for (int i = 0; i < EXTENSIONS; i++) {
		if (next == IPPROTO_TCP || next == IPPROTO_UDP)
			break;
		// Hop-by-hop, routing and destination options; what is a fragment or authenticated
		// is for user space.
		if (next != 0 && next != 43 && next != 60)
			return OTHER;
		if (load(from, at, extension, 2))
			return OTHER;
		next = extension[0];
		at += ((__u32)extension[1] + 1) * 8;
	}
	packet->l4 = next;
	return read_transport(from, at, end, packet);
}

// Reads a packet whose IP header is at `at`.
ALWAYS_INLINE enum reading read_packet(const struct source *from, __u32 at, struct packet *packet)
{
	__u8 version;

	if (load(from, at, &version, 1))
		return OTHER;
	switch (version >> 4) {
	case 4:
		return read_ipv4(from, at, packet);
	case 6:
		return read_ipv6(from, at, packet);
	default:
		return OTHER;
	}
}

// --- The connection cache ------------------------------------------------------------------------

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BLOCKED);
	__type(key, struct cache_key);
	__type(value, struct blocked);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} blocked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, REFUSALS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} refusals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TOTALS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} totals SEC(".maps");

ALWAYS_INLINE void count(enum total total)
{
	__u32 key = total;
	__u64 *value = bpf_map_lookup_elem(&totals, &key);

	if (value)
		*value += 1;
}

ALWAYS_INLINE struct cache_key key_of(const struct packet *packet)
{
	struct cache_key key = {};

	key.client = packet->source;
	key.server = packet->destination;
	key.port = packet->destination_port;
	key.l4 = packet->l4;
	return key;
}

// Whether a new connection matches a blocked one, if the packet opens one.
ALWAYS_INLINE int is_like_blocked(const struct packet *packet)
{
	struct cache_key key = key_of(packet);
	const struct blocked *entry = bpf_map_lookup_elem(&blocked, &key);

	return entry && bpf_ktime_get_boot_ns() < entry->until;
}

// The same of one that opens one: it is counted, and reported now and then.
ALWAYS_INLINE int is_refused(const struct packet *packet)
{
	struct cache_key key = key_of(packet);
	struct blocked *entry = bpf_map_lookup_elem(&blocked, &key);

	if (!entry)
		return 0;
	__u64 now = bpf_ktime_get_boot_ns();

	if (now >= entry->until)
		return 0;
	count(REFUSED);
	entry->latest = now;
	entry->client_port = packet->source_port;
	__sync_fetch_and_add(&entry->unreported, 1);
	__u64 report_at = entry->report_at;

	// Of several processors one reports.
	if (now >= report_at && __sync_val_compare_and_swap(&entry->report_at, report_at, now + REPORT_NS) == report_at) {
		struct refusals report = {
			.key = key,
			.client_port = packet->source_port,
			.latest = now,
			.attempts = __sync_lock_test_and_set(&entry->unreported, 0),
		};

		// Where the ring is full they are reported with the next.
		if (bpf_ringbuf_output(&refusals, &report, sizeof(report), BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&entry->unreported, report.attempts);
	}
	return 1;
}

// What is established was not blocked, or its mark says so.
ALWAYS_INLINE int has_syn_only(__u8 tcp_flags)
{
	return (tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
}

ALWAYS_INLINE int is_syn(const struct packet *packet)
{
	return packet->l4 == IPPROTO_TCP && has_syn_only(packet->tcp_flags);
}

// By the protocol and, of TCP, the flags: neither a SYN nor anything that has to be read on.
ALWAYS_INLINE int opens_nothing(__u8 l4, __u8 tcp_flags)
{
	return l4 == IPPROTO_UDP || (l4 == IPPROTO_TCP && !has_syn_only(tcp_flags));
}

// Whether a frame does not open a connection, as far as a few bytes tell. Nearly all frames do not,
// and cost the least this way. What is seldom (options of IPv4, extension headers) is read as a
// whole.
ALWAYS_INLINE int plainly_opens_nothing(const struct source *from)
{
	const __u8 *frame = from->data, *ip = frame + ETH_HLEN;
	__be16 kind;

	if ((void *)(ip + 20 + 14) > from->data_end)
		return 0;
	__builtin_memcpy(&kind, frame + 12, 2);
	if (kind == bpf_htons(ETH_P_IP) && ip[0] == 0x45)
		return opens_nothing(ip[9], ip[20 + 13]);
	if (kind == bpf_htons(ETH_P_IPV6) && ip[0] >> 4 == 6 && (void *)(ip + 40 + 14) <= from->data_end)
		return opens_nothing(ip[6], ip[40 + 13]);
	return 0;
}

// Whether a frame is a SYN that matches a blocked one. TCP only: without the packet filter's
// memory the first datagram of a UDP flow cannot be distinguished from those that follow it.
// Frames with a VLAN tag do not count: they are another network's, where the same addresses may be
// others', and cross another border. At the VLAN's own interface frames come without the tag.
ALWAYS_INLINE int is_refused_frame(const struct source *from)
{
	struct packet packet = {};
	__be16 kind = 0;

	if (plainly_opens_nothing(from) || load(from, 12, &kind, 2) ||
	    (kind != bpf_htons(ETH_P_IP) && kind != bpf_htons(ETH_P_IPV6)))
		return 0;
	return read_packet(from, ETH_HLEN, &packet) == READ && is_syn(&packet) && is_refused(&packet);
}

SEC("classifier")
int refuse(struct __sk_buff *skb)
{
	// Headers are read where they lie, which costs a fifth of a helper's copies. Where they do
	// not lie in one piece, which no driver does to them, user space refuses.
	struct source from = { .data = (void *)(long)skb->data, .data_end = (void *)(long)skb->data_end };

	// The network stack has taken the outermost tag off the frame.
	return !skb->vlan_present && is_refused_frame(&from) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

SEC("xdp")
int refuse_early(struct xdp_md *frame)
{
	struct source from = { .data = (void *)(long)frame->data, .data_end = (void *)(long)frame->data_end };

	return is_refused_frame(&from) ? XDP_DROP : XDP_PASS;
}

// Whether a packet of a connection that the packet filter takes for new matches a blocked one.
SEC("socket")
int refuse_new(struct __sk_buff *skb)
{
	struct source from = { .skb = skb };
	struct packet packet = {};

	if (read_packet(&from, 0, &packet) != READ || (packet.l4 != IPPROTO_UDP && !is_syn(&packet)))
		return 0;
	return is_refused(&packet);
}

// --- What need not be asked about ----------------------------------------------------------------

// The model, line by line, is `triage::FlowModel` (src/triage/flow.rs), and the automaton's that of
// `triage::Triage`; a test runs both on the same packets. What is said there is not said again
// here.

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct border);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} border SEC(".maps");

// Two of everything: one is in use while the other is written.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} in_use SEC(".maps");

// Until when there is a gateway, which renews it again and again.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} alive SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct triage);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} triages SEC(".maps");

// Row after row: the next state in the lower half, its flags in the upper.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * CELLS);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} cells SEC(".maps");

// A bit for each port, of TCP and then of UDP, in each slot.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * 2 * PORT_WORDS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 2 * NETWORKS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct network);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} networks SEC(".maps");

enum stage {
	STAGE_OPEN,
	STAGE_ASKED,
	STAGE_DONE,
};

// Undecided connections by TCP, those by UDP, and SYNs that were not answered yet. Each kind has a
// map of its own, so that a flood of one does not cost the others their beginnings. The longest
// unused gives way; user space is asked about the rest of it.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct ends);
	__type(value, struct flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DATAGRAMS);
	__type(key, struct ends);
	__type(value, struct flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} datagrams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SYNS);
	__type(key, struct ends);
	__type(value, struct pending_syn);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pending_syns SEC(".maps");

// Flows as they were when user space was first asked.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, HANDING);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} handed SEC(".maps");

// What does not fit on the stack.
struct scratch {
	struct flow flow;
	__u8 payload[SCAN];
	// The packet that `triage` saw just now passes, and is of a flow of which enough was seen.
	__u32 finished;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

// Who sends: 1 if the higher end does.
ALWAYS_INLINE __u8 ends_of(const struct packet *packet, struct ends *ends)
{
	int order = 0;

	for (int i = 0; i < 4 && !order; i++)
		if (packet->source.word[i] != packet->destination.word[i])
			order = packet->source.word[i] < packet->destination.word[i] ? -1 : 1;
	if (!order && packet->source_port != packet->destination_port)
		order = packet->source_port < packet->destination_port ? -1 : 1;
	__u8 high = order > 0;

	ends->low = high ? packet->destination : packet->source;
	ends->high = high ? packet->source : packet->destination;
	ends->low_port = high ? packet->destination_port : packet->source_port;
	ends->high_port = high ? packet->source_port : packet->destination_port;
	ends->l4 = packet->l4;
	return high;
}

// Loads at most `most` bytes of the payload, which has some; 0 if that fails. The verifier has to
// see that the length is from 1 to `most`. That is checked by one less, because up to Linux 6.7 it
// learns nothing from what is not 0.
#define LOAD_PAYLOAD(skb, packet, to, most)                                                                                \
	({                                                                                                                 \
		__u32 loaded = (packet)->payload < (most) ? (packet)->payload : (most);                                    \
		__u32 less = loaded - 1;                                                                                   \
		asm volatile("" : "+r"(less));                                                                             \
		if (less >= (most) || bpf_skb_load_bytes(skb, (packet)->payload_at, to, less + 1))                         \
			loaded = 0;                                                                                        \
		loaded;                                                                                                    \
	})

ALWAYS_INLINE int asks_about_port(__be16 port, __u32 udp, __u32 slot)
{
	__u32 number = bpf_ntohs(port), at = (slot * 2 + udp) * PORT_WORDS + number / 64;
	__u64 *word = bpf_map_lookup_elem(&ports, &at);

	return word && *word >> (number % 64) & 1;
}

// Whether a packet comes or goes by the border, as far as one of its interfaces shows: the one by
// which it came, across a bridge the one by which it goes.
ALWAYS_INLINE int is_at_border(__u32 interface)
{
	__u32 zero = 0;
	const struct border *known = bpf_map_lookup_elem(&border, &zero);

	if (!known || !known->interfaces[0])
		return 1;
	for (int i = 0; i < INTERFACES && known->interfaces[i]; i++)
		if (known->interfaces[i] == interface)
			return 1;
	return 0;
}

// Whether every packet of these ends is asked about.
ALWAYS_INLINE int asks_about(const struct packet *packet, const struct triage *triage, __u32 slot)
{
	__u32 udp = packet->l4 == IPPROTO_UDP;

	if (triage->ports[udp] && (asks_about_port(packet->source_port, udp, slot) ||
				   asks_about_port(packet->destination_port, udp, slot)))
		return 1;
	if (!triage->networks)
		return 0;
	struct network key = { .prefix = 8 * (1 + 16), .slot = slot };

	__builtin_memcpy(key.address, &packet->source, 16);
	if (bpf_map_lookup_elem(&networks, &key))
		return 1;
	__builtin_memcpy(key.address, &packet->destination, 16);
	return bpf_map_lookup_elem(&networks, &key) != 0;
}

// The flags that so many bytes of the scratch's payload lead to, or ASK. A function of its own, so
// that the verifier looks at its loop once and not for each way that leads here.
__attribute__((noinline)) __u32 scan(__u32 slot, __u32 begin, __u32 scanned)
{
	__u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct triage *triage = bpf_map_lookup_elem(&triages, &slot);

	if (!scratch || !triage || begin > 2)
		return ASK;
	__u32 base = slot * CELLS, state = triage->starts[begin], flags = 0;

	for (__u32 i = 0; i < SCAN; i++) {
		if (i >= scanned || flags & (ASK | DEAD))
			break;
		__u32 at = base + state * triage->class_count + triage->classes[scratch->payload[i]];
		__u32 *cell = bpf_map_lookup_elem(&cells, &at);

		if (!cell)
			return ASK;
		state = *cell & 0xffff;
		flags = *cell >> 16;
	}
	return flags;
}

// The flags that the payload leads to, or ASK.
ALWAYS_INLINE __u32 judge(struct __sk_buff *skb, const struct packet *packet, __u32 slot, __u32 begin, struct scratch *scratch)
{
	__u32 scanned = LOAD_PAYLOAD(skb, packet, scratch->payload, SCAN);

	if (!scanned)
		return ASK;
	__u32 flags = scan(slot, begin, scanned);

	if (flags & ASK || (scanned == packet->payload ? flags & OPEN : !(flags & DEAD)))
		return ASK;
	return flags;
}

ALWAYS_INLINE void count_joined(struct flow *flow, __u32 from, __u32 length)
{
	__u32 packets = length / ETHERNET_SEGMENT;
	__u32 count = flow->counts[from] + (packets ? packets : 1);

	flow->counts[from] = count > 255 ? 255 : count;
}

ALWAYS_INLINE void count_segment(struct flow *flow, __u32 from, __u32 length)
{
	if (length > ETHERNET_SEGMENT) {
		count_joined(flow, from, length);
		return;
	}
	__u32 eighths = length * SMALL_SEGMENTS / FULL_SEGMENT;

	eighths = flow->eighths[from] + (eighths ? eighths : 1);
	if (eighths >= SMALL_SEGMENTS) {
		eighths = 0;
		if (flow->counts[from] < 255)
			flow->counts[from]++;
	}
	flow->eighths[from] = eighths;
}

ALWAYS_INLINE void end_if_exhausted(struct flow *flow, __u8 packets)
{
	__u32 both = packets * ONE_SIDED;
	int had_turns = flow->counts[0] >= packets && flow->counts[1] >= packets;
	int went_on = flow->counts[0] >= both || flow->counts[1] >= both;

	// Datagrams may be answered at any time. Never past what another processor has asked about
	// meanwhile.
	if (had_turns ? went_on || flow->known : went_on && flow->ends.l4 == IPPROTO_TCP)
		__sync_val_compare_and_swap(&flow->stage, STAGE_OPEN, STAGE_DONE);
}

ALWAYS_INLINE int has_data(const struct flow *flow, __u32 from)
{
	return flow->counts[from] || flow->eighths[from];
}

// Keeps what has passed, as far as there is room.
ALWAYS_INLINE void keep(struct __sk_buff *skb, const struct packet *packet, struct flow *flow, __u8 from)
{
	__u32 want = packet->payload < KEPT_PACKET ? packet->payload : KEPT_PACKET;
	__u32 need = (sizeof(struct kept) + want + 3) & ~3U;
	// Reserved at once: the other direction's packets may be on another processor.
	__u32 at = __sync_fetch_and_add(&flow->used, need);

	if (at > KEPT - sizeof(struct kept) - KEPT_PACKET)
		return;
	struct kept *kept = (struct kept *)&flow->kept[at];

	kept->from = from;
	kept->length = packet->payload;
	kept->sequence = packet->sequence;
	kept->kept = LOAD_PAYLOAD(skb, packet, &flow->kept[at + sizeof(struct kept)], KEPT_PACKET);
}

enum fate {
	// Also what has finished: the next rule looks at that, and costs those nothing that have
	// not.
	FATE_ASK,
	FATE_PASS,
};

ALWAYS_INLINE enum fate take_in(struct __sk_buff *skb, const struct packet *packet, struct flow *flow, __u8 from,
				const struct triage *triage, __u32 slot, struct scratch *scratch)
{
	int begun = has_data(flow, 0) || has_data(flow, 1), tcp = packet->l4 == IPPROTO_TCP;
	// What has no name yet may hide behind packets of nothing.
	__u32 begin = 2, most = flow->known ? triage->packets : triage->packets * ONE_SIDED;

	if (flow->counts[from] >= most) {
		if (tcp) {
			__u32 end = packet->sequence + packet->payload;

			// Nothing is judged by it any more; it tells user space how far this side
			// has come.
			if ((__s32)(end - flow->next[from]) > 0)
				flow->next[from] = end;
			count_joined(flow, from, packet->payload);
			end_if_exhausted(flow, triage->packets);
		}
		return FATE_PASS;
	}
	if (tcp) {
		if (flow->next[from] != packet->sequence)
			return FATE_ASK;
		begin = has_data(flow, from) && flow->counts[from] < triage->packets ? 1 : 0;
	}
	__u32 flags = judge(skb, packet, slot, begin, scratch);

	if (flags & ASK || (!begun && !(flags & KNOWN) && triage->needs_unknown))
		return FATE_ASK;
	if (!begun)
		flow->known = flags & KNOWN ? 1 : 0;
	keep(skb, packet, flow, from);
	if (tcp) {
		flow->next[from] = packet->sequence + packet->payload;
		count_segment(flow, from, packet->payload);
	} else if (flow->counts[from] < 255) {
		flow->counts[from]++;
	}
	end_if_exhausted(flow, triage->packets);
	return FATE_PASS;
}

ALWAYS_INLINE enum fate decide(struct __sk_buff *skb, const struct packet *packet, struct flow *flow, __u8 from,
			       const struct triage *triage, __u32 slot, struct scratch *scratch)
{
	if (packet->l4 == IPPROTO_TCP && packet->tcp_flags & TCP_SYN)
		return packet->payload ? FATE_ASK : FATE_PASS;
	if (!packet->payload)
		return FATE_PASS;
	return take_in(skb, packet, flow, from, triage, slot, scratch);
}

ALWAYS_INLINE __u32 seconds(void)
{
	return bpf_ktime_get_boot_ns() / 1000000000ULL;
}

// A flow of these ends that begins with this packet. All but `kept`, of which nothing is read that
// was not written.
ALWAYS_INLINE void begin(struct flow *flow, const struct ends *ends, __u8 high)
{
	__builtin_memset(flow, 0, __builtin_offsetof(struct flow, kept));
	flow->ends = *ends;
	flow->from_high = high;
	flow->seen = seconds();
}

// The same for a SYN that got its SYN-ACK.
ALWAYS_INLINE void open(struct flow *flow, const struct ends *ends, __u8 high, __u32 number, __u32 answer)
{
	begin(flow, ends, high);
	flow->opened[0] = 1;
	flow->first[0] = number;
	flow->next[0] = number + 1;
	flow->opened[1] = 2;
	flow->first[1] = answer;
	flow->next[1] = answer + 1;
}

// A SYN, of which `from` is the direction and `high` the sender's end. It may open the connection
// once more, or answer such a SYN.
ALWAYS_INLINE void note_syn(const struct packet *packet, const struct ends *ends, __u8 high, struct flow *flow, __u32 from)
{
	__u32 number = packet->sequence;

	if (packet->tcp_flags & TCP_ACK) {
		__u32 resyn = flow->resyn;

		if (flow->resyn_from != 2 - from || packet->acknowledged != resyn + 1)
			return;
		open(flow, ends, !high, resyn, number);
		return;
	}
	if (flow->stage == STAGE_OPEN && !has_data(flow, 0) && !has_data(flow, 1) && flow->first[from] == number)
		return;
	flow->resyn_from = 1 + from;
	flow->resyn = number;
	__sync_val_compare_and_swap(&flow->stage, STAGE_DONE, STAGE_ASKED);
}

// The connection of these ends. There is one once a SYN was answered; without one `fate` is that of
// the packet. `asked`: everything of these ends is asked about.
ALWAYS_INLINE struct flow *connection_of(const struct packet *packet, const struct ends *ends, __u8 high, int asked,
					 struct scratch *scratch, enum fate *fate)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, ends);

	if (flow) {
		if (packet->tcp_flags & TCP_SYN)
			note_syn(packet, ends, high, flow, (high ^ flow->from_high) & 1);
		return flow;
	}
	if (asked || packet->payload)
		return 0;
	if (!(packet->tcp_flags & TCP_SYN)) {
		// A SYN that gets a reset is over.
		if (packet->tcp_flags & TCP_RST && bpf_map_lookup_elem(&pending_syns, ends))
			*fate = FATE_PASS;
		return 0;
	}
	if (!(packet->tcp_flags & TCP_ACK)) {
		struct pending_syn pending = { .number = packet->sequence, .high = high };

		if (!bpf_map_update_elem(&pending_syns, ends, &pending, BPF_ANY))
			*fate = FATE_PASS;
		return 0;
	}
	struct pending_syn *pending = bpf_map_lookup_elem(&pending_syns, ends);

	if (!pending || pending->high == high || packet->acknowledged != pending->number + 1)
		return 0;
	open(&scratch->flow, ends, !high, pending->number, packet->sequence);
	bpf_map_update_elem(&flows, ends, &scratch->flow, BPF_NOEXIST);
	bpf_map_delete_elem(&pending_syns, ends);
	return bpf_map_lookup_elem(&flows, ends);
}

// The same of UDP, where the first datagram begins it.
ALWAYS_INLINE struct flow *datagrams_of(const struct ends *ends, __u8 high, int asked, struct scratch *scratch)
{
	struct flow *flow = bpf_map_lookup_elem(&datagrams, ends);

	if (flow) {
		__u32 now = seconds();

		if (now - flow->seen > UDP_IDLE)
			begin(flow, ends, high);
		flow->seen = now;
		return flow;
	}
	if (asked)
		return 0;
	begin(&scratch->flow, ends, high);
	bpf_map_update_elem(&datagrams, ends, &scratch->flow, BPF_NOEXIST);
	return bpf_map_lookup_elem(&datagrams, ends);
}

// Whether a packet goes on without being asked about. Runs where the packet filter forwards: both
// directions have the addresses of the inside there, fragments are joined, and checksums were
// verified.
SEC("socket")
int triage(struct __sk_buff *skb)
{
	struct source source = { .skb = skb };
	struct packet packet = {};
	struct ends ends = {};
	__u32 zero = 0;
	__u32 *using = bpf_map_lookup_elem(&in_use, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);

	if (!using || !scratch)
		return FATE_ASK;
	scratch->finished = 0;
	__u32 slot = *using & 1;
	struct triage *triage = bpf_map_lookup_elem(&triages, &slot);

	if (!triage || !triage->enabled || !is_at_border(skb->ifindex) ||
	    read_packet(&source, 0, &packet) != READ)
		return FATE_ASK;
	if (triage->closed) {
		__u64 *until = bpf_map_lookup_elem(&alive, &zero);

		if (!until || bpf_ktime_get_boot_ns() > *until)
			return FATE_ASK;
	}
	__u8 high = ends_of(&packet, &ends);
	// Calls like a blocked one are refused further on (`refuse_new`).
	int asked = asks_about(&packet, triage, slot) || (is_syn(&packet) && is_like_blocked(&packet));
	enum fate fate = FATE_ASK;
	struct flow *flow = packet.l4 == IPPROTO_TCP ? connection_of(&packet, &ends, high, asked, scratch, &fate) :
						       datagrams_of(&ends, high, asked, scratch);

	if (!flow) {
		if (fate == FATE_PASS)
			count(PASSED);
		return fate;
	}
	__u8 from = (high ^ flow->from_high) & 1;

	// So are datagrams that were not answered yet.
	if (packet.l4 == IPPROTO_UDP && !has_data(flow, from ^ 1) && is_like_blocked(&packet))
		return FATE_ASK;
	if (flow->stage == STAGE_ASKED)
		return FATE_ASK;
	if (flow->stage == STAGE_DONE) {
		scratch->finished = 1;
		return FATE_ASK;
	}
	// Another processor may have asked meanwhile, and handed over what had passed until then.
	if (!asked &&
	    decide(skb, &packet, flow, from, triage, slot, scratch) == FATE_PASS &&
	    *(volatile __u32 *)&flow->stage != STAGE_ASKED) {
		count(PASSED);
		scratch->finished = flow->stage == STAGE_DONE;
		return scratch->finished ? FATE_ASK : FATE_PASS;
	}
	// One processor hands it over; where nothing has passed there is nothing to hand over.
	if (__sync_lock_test_and_set(&flow->stage, STAGE_ASKED) == STAGE_OPEN && (flow->opened[0] || flow->used)) {
		// Across a bridge the end that is reset has to be found on its link, and has sent
		// nothing yet.
		if (!bpf_skb_load_bytes_relative(skb, 0, flow->receiver, 6, BPF_HDR_START_MAC))
			flow->linked = 1 + from;
		if (bpf_ringbuf_output(&handed, flow, sizeof(*flow), BPF_RB_NO_WAKEUP))
			count(LOST);
	}
	return FATE_ASK;
}

// Whether the packet that `triage` saw just now passes, and its connection need not be looked at
// any more. The packet filter runs both for one packet after the other, on one processor. What may
// come between, in a software interrupt, runs both to its end and leaves no word, so that the
// packet is asked about.
SEC("socket")
int finished(struct __sk_buff *skb __attribute__((unused)))
{
	__u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);

	if (!scratch || !scratch->finished)
		return 0;
	// It holds for this packet only.
	scratch->finished = 0;
	count(FINISHED);
	return 1;
}

char licence[] SEC("license") = "Dual MIT/GPL";
