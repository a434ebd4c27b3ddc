/*
 * DTL, the dynamic transport library: reliable streams over UDP with a priority that may change
 * while data flows. Link with -ldtl.
 *
 * Every call blocks; those marked so give up after a time. Threads of the library's own do the work
 * behind them. A handle may be used from several threads at once; for a stream that is one that
 * sends and one that receives. Free each handle once, when no call uses it any more.
 *
 * Functions that return a pointer return NULL on failure, those that return a number a negative
 * one: then dtl_last_error() says in words what happened and what mends it.
 *
 * Priorities are numbers from 0 to 1000: 0 takes what others leave, N what N TCP flows would take.
 * A connection's says what it is worth beside everything else on the path, a stream's which part of
 * its connection's rate it gets. Each side sets the priority of what it sends.
 */
#ifndef DTL_H
#define DTL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a secret, and of a public key. */
#define DTL_KEY_BYTES 32
/* Bytes that the text of every address fits into, with the zero at its end. */
#define DTL_ADDRESS_BYTES 64

typedef struct dtl_endpoint dtl_endpoint;
typedef struct dtl_connection dtl_connection;
typedef struct dtl_stream dtl_stream;

/* What a connection measures. Counters are of this side since the handshake. */
typedef struct dtl_stats {
    double priority;
    double loss;               /* part of the bytes sent that was lost, 0 to 1 */
    uint64_t rtt_us;           /* smoothed round trip, microseconds */
    int64_t queueing_us;       /* wait in queues on the way, microseconds; -1 until measured */
    int64_t rate;              /* bytes a second that may leave; -1 until measured */
    uint64_t window;           /* bytes that may be unacknowledged */
    uint64_t sent_bytes;
    uint64_t sent_packets;
    uint64_t lost_bytes;
    uint64_t lost_packets;
    uint64_t received_bytes;
    uint64_t received_packets;
    char limited_by[24];       /* why it is not faster, such as "path"; empty until known */
} dtl_stats;

/* Why this thread's last call that failed did so; valid until the next one fails. Never NULL. */
const char *dtl_last_error(void);

/* Makes a secret. Keep it, and others know the program again. 0, or -1. */
int dtl_generate_secret(uint8_t secret[DTL_KEY_BYTES]);
/* The public key of a secret. 0, or -1. */
int dtl_public_key(const uint8_t secret[DTL_KEY_BYTES], uint8_t key[DTL_KEY_BYTES]);

/*
 * Binds a UDP port for both directions. `address` is an IP address and a port, such as
 * "0.0.0.0:4000" or "[::]:0"; 0 lets the system choose. Connections are accepted from the `trusted`
 * public keys, `count` times DTL_KEY_BYTES bytes; from every peer if that is NULL, and from none if
 * `count` is 0.
 */
dtl_endpoint *dtl_endpoint_bind(const char *address, const uint8_t secret[DTL_KEY_BYTES],
                                const uint8_t *trusted, size_t count);
/* The address that it has, as text. 0, or -1 if `size` is too small. */
int dtl_endpoint_address(const dtl_endpoint *endpoint, char *text, size_t size);
/* Goes on at another address of this host with all connections that it made. 0, or -1. */
int dtl_endpoint_rebind(const dtl_endpoint *endpoint, const char *address);
/* Closes it and all its connections, and waits up to five seconds until peers were told. */
void dtl_endpoint_free(dtl_endpoint *endpoint);

/* Connects to `address`, where `peer_key` must answer; any key, if that is NULL. Gives up after five
 * seconds. */
dtl_connection *dtl_connect(const dtl_endpoint *endpoint, const char *address,
                            const uint8_t *peer_key, double priority);
/* The next connection that a peer makes. A negative `timeout_ms` waits for ever. */
dtl_connection *dtl_accept(const dtl_endpoint *endpoint, int64_t timeout_ms);
/* The key that the peer has proved. 0, or -1. */
int dtl_peer_key(const dtl_connection *connection, uint8_t key[DTL_KEY_BYTES]);
/* Changes the priority of what this side sends, at once and without a stall. 0, or -1. */
int dtl_set_priority(const dtl_connection *connection, double priority);
/* What the connection measures now. 0, or -1. */
int dtl_statistics(const dtl_connection *connection, dtl_stats *stats);
/* Frees the handle. The connection ends with its last handle and stream; what was not delivered by
 * then is lost: end streams with dtl_finish(). */
void dtl_connection_free(dtl_connection *connection);

/* Opens a stream. The peer hears of it with the first byte. */
dtl_stream *dtl_open(const dtl_connection *connection, double priority);
/* The next stream that the peer opens. A negative `timeout_ms` waits for ever. */
dtl_stream *dtl_accept_stream(const dtl_connection *connection, int64_t timeout_ms);
/* Sends all of it: 0, or -1. Waits while the peer does not read. */
int dtl_send(const dtl_stream *stream, const void *data, size_t size);
/* Receives at least a byte and at most `size`: how many, 0 at the end of the stream, or -1. */
ptrdiff_t dtl_recv(const dtl_stream *stream, void *data, size_t size);
/* Changes the stream's priority among those of its connection, also while another thread sends. 0,
 * or -1. */
int dtl_stream_set_priority(const dtl_stream *stream, double priority);
/* Says that nothing more comes, and waits until the peer has everything: 0, or -1. */
int dtl_finish(const dtl_stream *stream);
/* Frees the handle, and finishes the stream without waiting. */
void dtl_stream_free(dtl_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
