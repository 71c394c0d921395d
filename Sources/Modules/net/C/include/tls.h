// TLS by OpenSSL 3, which is loaded when it is first needed. Nothing here is called by two threads at once for one session.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Settings that any number of sessions share.
struct net_tls_context;
/// One connection's.
struct net_tls;

enum net_tls_result {
  NET_TLS_DONE = 1,
  NET_TLS_END = 0,        ///< the peer has said that no more comes
  NET_TLS_WAIT = -1,      ///< for more from below
  NET_TLS_FAILED = -2,    ///< see net_tls_error
  NET_TLS_NAME = -3,      ///< the client has said which server it wants: see net_tls_name and net_tls_choose
};

/// 0, or an error number and why there is no TLS here: ENOPKG without a usable OpenSSL. It is tried again at each call. Any thread.
int net_tls_load(char *problem, size_t size);

struct net_tls_settings {
  int is_server;
  int verifies;              ///< the other side's certificate
  const char *ca;            ///< whom to believe: a file, a directory, or certificates as text; NULL: whom the system believes
  const char *certificate, *key;  ///< own: files, or text
  const uint8_t *protocols;  ///< each with its length before it
  size_t protocols_length;
  int min_minor;             ///< 2 for TLS 1.2, 3 for TLS 1.3
  int asks_for_name;         ///< NET_TLS_NAME is wanted
};

/// NULL: `code` and `text` say why.
struct net_tls_context *net_tls_context_make(const struct net_tls_settings *settings, char code[32], char text[512]);
void net_tls_context_free(struct net_tls_context *context);

/// Reads what has arrived: how many bytes, 0 at the end, -1 when there is nothing now.
typedef int64_t (*net_tls_reader)(void *stream, void *bytes, size_t count);
/// Takes what is to be sent, all of it.
typedef void (*net_tls_writer)(void *stream, const void *bytes, size_t count);

/// NULL: there is no memory. `name`: of a client, the server's name or address; NULL: it is not checked.
struct net_tls *net_tls_make(struct net_tls_context *context, const char *name, net_tls_reader reader, net_tls_writer writer);
void net_tls_free(struct net_tls *tls);
/// Before each of the following, for the two functions.
void net_tls_set_stream(struct net_tls *tls, void *stream);
int net_tls_handshake(struct net_tls *tls);
/// A number of bytes, or a result.
int64_t net_tls_read(struct net_tls *tls, void *bytes, size_t count);
int64_t net_tls_write(struct net_tls *tls, const void *bytes, size_t count);
/// Whether the handshake is over, and was successful.
int net_tls_is_agreed(const struct net_tls *tls);
/// Says that no more comes.
void net_tls_finish(struct net_tls *tls);
/// "" if the client has named none.
const char *net_tls_name(struct net_tls *tls);
/// Goes on with other settings; NULL: with those it has.
void net_tls_choose(struct net_tls *tls, struct net_tls_context *context);
/// The next step of the handshake fails, and the client is told why: there is no server of this name, or it cannot serve.
void net_tls_refuse(struct net_tls *tls, int is_unknown);
/// The size of a record's head: OpenSSL reads that first, and nothing behind it if that is no TLS.
enum { NET_TLS_FIRST = 5 };
/// Whether a client has sent text instead of a handshake, which then has failed: the count of bytes that were read, or
/// 0.
size_t net_tls_text(const struct net_tls *tls, const void **bytes);
void net_tls_error(const struct net_tls *tls, const char **code, const char **text);

struct net_tls_info {
  const char *version, *cipher;
  char protocol[256], subject[512], issuer[512], names[2048], not_after[64], fingerprint[65];
  int has_certificate, is_verified;
};
void net_tls_info(struct net_tls *tls, struct net_tls_info *info);
