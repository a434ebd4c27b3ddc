/*
 * Chat and bulk on two connections to one peer, in C. One thread is the peer: it sends chat back and
 * reads bulk. Build it with
 *
 *     cargo build --release -p ringway-dtl-c
 *     cc -I crates/dtl-c/include crates/dtl-c/examples/chat_and_bulk.c -L target/release -ldtl -pthread
 */
#include <dtl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BULK (8 * 1024 * 1024)

static void must(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, dtl_last_error());
        exit(1);
    }
}

static void *peer(void *endpoint) {
    static char buffer[65536];
    for (int i = 0; i < 2; i++) {
        dtl_connection *connection = dtl_accept(endpoint, 30000);
        must(connection != NULL, "accept");
        dtl_stream *stream = dtl_accept_stream(connection, 30000);
        must(stream != NULL, "accept a stream");
        ptrdiff_t got;
        long long all = 0;
        while ((got = dtl_recv(stream, buffer, sizeof buffer)) > 0) {
            all += got;
            if (i == 0)
                must(dtl_send(stream, buffer, (size_t)got) == 0, "send back");
        }
        must(got == 0, "receive");
        if (i == 1)
            must(all == BULK, "all of the bulk");
        must(dtl_finish(stream) == 0, "finish");
        dtl_stream_free(stream);
        dtl_connection_free(connection);
    }
    return NULL;
}

int main(void) {
    uint8_t theirs[DTL_KEY_BYTES], key[DTL_KEY_BYTES], proved[DTL_KEY_BYTES], ours[DTL_KEY_BYTES];
    must(dtl_generate_secret(theirs) == 0 && dtl_generate_secret(ours) == 0, "secrets");
    must(dtl_public_key(theirs, key) == 0, "key");
    dtl_endpoint *server = dtl_endpoint_bind("127.0.0.1:0", theirs, NULL, 0);
    must(server != NULL, "bind");
    char address[DTL_ADDRESS_BYTES];
    must(dtl_endpoint_address(server, address, sizeof address) == 0, "address");
    pthread_t thread;
    must(pthread_create(&thread, NULL, peer, server) == 0, "thread");

    dtl_endpoint *client = dtl_endpoint_bind("127.0.0.1:0", ours, ours, 0);
    must(client != NULL, "bind");
    dtl_connection *chat = dtl_connect(client, address, key, 8);
    must(chat != NULL, "connect");
    must(dtl_peer_key(chat, proved) == 0 && memcmp(proved, key, sizeof key) == 0, "the peer's key");
    dtl_stream *line = dtl_open(chat, 1);
    must(line != NULL, "open");
    char word[6] = "";
    must(dtl_send(line, "hello", 5) == 0, "chat");
    for (int got = 0; got < 5;) {
        ptrdiff_t more = dtl_recv(line, word + got, (size_t)(5 - got));
        must(more > 0, "the answer");
        got += (int)more;
    }
    must(dtl_endpoint_rebind(client, "127.0.0.1:0") == 0, "another port");
    must(dtl_finish(line) == 0, "finish chat");

    dtl_connection *bulk = dtl_connect(client, address, NULL, 0);
    must(bulk != NULL, "connect for bulk");
    dtl_stream *file = dtl_open(bulk, 1);
    must(file != NULL, "open for bulk");
    static char block[65536];
    for (int sent = 0; sent < BULK; sent += (int)sizeof block) {
        if (sent == BULK / 2) /* it has become urgent: the same connection goes on */
            must(dtl_set_priority(bulk, 4) == 0 && dtl_stream_set_priority(file, 2) == 0, "raise");
        must(dtl_send(file, block, sizeof block) == 0, "bulk");
    }
    must(dtl_finish(file) == 0, "finish bulk");
    dtl_stats stats;
    must(dtl_statistics(bulk, &stats) == 0, "statistics");
    must(stats.priority == 4 && stats.sent_bytes > BULK && stats.rtt_us > 0, "right statistics");
    must(stats.limited_by[0] != 0, "a reason");
    pthread_join(thread, NULL);

    /* What goes wrong is said in words. */
    if (dtl_set_priority(bulk, -1) == 0 || strstr(dtl_last_error(), "negative") == NULL)
        return 2;
    if (dtl_connect(client, "here", key, 1) != NULL || strstr(dtl_last_error(), "here") == NULL)
        return 3;
    if (dtl_send(NULL, "x", 1) == 0 || dtl_accept(server, 10) != NULL)
        return 4;
    printf("%s, statistics of %zu bytes\n", word, sizeof stats);
    dtl_stream_free(file);
    dtl_stream_free(line);
    dtl_connection_free(bulk);
    dtl_connection_free(chat);
    dtl_connection_free(NULL);
    dtl_endpoint_free(client);
    dtl_endpoint_free(server);
    return 0;
}
