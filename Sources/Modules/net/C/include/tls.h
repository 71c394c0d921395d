// TLS with OpenSSL 3, which is loaded at first use. Calls for one session must come from one thread at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Settings that sessions share.
struct net_tls_context;
/// The TLS state of one connection.
struct net_tls;

enum net_tls_result {
  NET_TLS_DONE = 1,
  NET_TLS_END = 0,      ///< the peer has ended its output
  NET_TLS_WAIT = -1,    ///< needs more input from the socket
  NET_TLS_FAILED = -2,  ///< see net_tls_error
  NET_TLS_NAME = -3,    ///< the client has named a server: see net_tls_name and net_tls_choose
};

/// Returns 0, or an error number and the reason: ENOPKG if there is no usable OpenSSL. Each call tries again. May be
/// called on any thread.
int net_tls_load(char *problem, size_t size);

struct net_tls_settings {
  int is_server;
  int verifies;    ///< check the peer's certificate
  const char *ca;  ///< trusted authorities: a file, a directory, or certificates as text; NULL: the system's
  const char *certificate, *key;  ///< own certificate and key: files, or text
  const uint8_t *protocols;       ///< each name after its length
  size_t protocols_length;
  int min_minor;      ///< 2 for TLS 1.2, 3 for TLS 1.3
  int asks_for_name;  ///< stop with NET_TLS_NAME
};

/// Returns NULL, with the reason in `code` and `text`.
struct net_tls_context *net_tls_context_make(const struct net_tls_settings *settings, char code[32], char text[512]);
void net_tls_context_free(struct net_tls_context *context);

/// Reads from the socket. Returns the number of bytes, 0 at the end, -1 if there is nothing now.
typedef int64_t (*net_tls_reader)(void *stream, void *bytes, size_t count);
/// Takes all of the encrypted bytes, and sends them.
typedef void (*net_tls_writer)(void *stream, const void *bytes, size_t count);

/// Returns NULL without memory. `name`: for a client, the server's name or address; NULL: do not check it.
struct net_tls *net_tls_make(struct net_tls_context *context, const char *name, net_tls_reader reader,
                             net_tls_writer writer);
void net_tls_free(struct net_tls *tls);
/// Sets the first argument of the reader and the writer. Required before each of the following calls.
void net_tls_set_stream(struct net_tls *tls, void *stream);
int net_tls_handshake(struct net_tls *tls);
/// Both functions return a number of bytes, or one of the results above.
int64_t net_tls_read(struct net_tls *tls, void *bytes, size_t count);
int64_t net_tls_write(struct net_tls *tls, const void *bytes, size_t count);
/// Whether the handshake has succeeded.
int net_tls_is_agreed(const struct net_tls *tls);
/// Sends the alert that ends TLS.
void net_tls_finish(struct net_tls *tls);
/// Returns "" if the client has named no server.
const char *net_tls_name(struct net_tls *tls);
/// Continues a handshake that has stopped at a name: with other settings, or, with NULL, with its present ones.
void net_tls_choose(struct net_tls *tls, struct net_tls_context *context);
/// Makes the next step of the handshake fail. The alert reports that no server has this name, or that the server cannot
/// serve.
void net_tls_refuse(struct net_tls *tls, int is_unknown);
/// The size of a record's head. OpenSSL reads the head first, and stops after it if the bytes are not TLS.
enum { NET_TLS_FIRST = 5 };
/// If a handshake has failed because the client has sent text, returns the number of bytes that were read; else 0.
size_t net_tls_text(const struct net_tls *tls, const void **bytes);
void net_tls_error(const struct net_tls *tls, const char **code, const char **text);

/// The properties of a finished handshake, in one block of memory. Each text ends with a NUL.
struct net_tls_info {
  const char *version, *cipher, *protocol;
  /// The peer's certificate, if there is one. The names are separated by line feeds.
  const char *subject, *issuer, *names, *not_after, *fingerprint;
  int has_certificate, is_verified;
};
/// Returns NULL if there is no memory. The caller calls `free` on the result.
struct net_tls_info *net_tls_info(struct net_tls *tls);
