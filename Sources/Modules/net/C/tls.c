#define _GNU_SOURCE
#include "tls.h"
#include "tls_private.h"
#include <CLinux.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net_tls {
  SSL *ssl;
  int is_server;
  void *stream;
  net_tls_reader reader;
  net_tls_writer writer;
  int is_at_end, was_asked, has_choice;
  int refusal;                         // the alert
  unsigned char first[NET_TLS_FIRST];  // the first bytes of a client
  size_t first_length;
  char name[256];
  const char *code;
  char text[640];
  // The certificate that has failed verification.
  int wrong_depth, has_wrong, verifies, lacks_authorities;
  char wrong_subject[256];
};

// The lower end: a BIO that reads from the stream and passes encrypted bytes to it ------------------------------------

static int bio_read(BIO *bio, char *bytes, int count) {
  struct net_tls *tls = openssl.BIO_get_data(bio);
  openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  size_t missing = tls->is_server ? NET_TLS_FIRST - tls->first_length : 0;
  if (missing > 0 && (size_t)count > missing) count = (int)missing;
  int64_t n = tls->reader(tls->stream, bytes, (size_t)count);
  if (n > 0 && missing > 0) memcpy(tls->first + tls->first_length, bytes, (size_t)n), tls->first_length += (size_t)n;
  if (n > 0) return (int)n;
  if (n == 0) tls->is_at_end = 1;
  else openssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  return n == 0 ? 0 : -1;
}

static int bio_write(BIO *bio, const char *bytes, int count) {
  struct net_tls *tls = openssl.BIO_get_data(bio);
  openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  tls->writer(tls->stream, bytes, (size_t)count);
  return count;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
  struct net_tls *tls = openssl.BIO_get_data(bio);
  switch (command) {
    case BIO_CTRL_FLUSH: return 1;
    case BIO_CTRL_EOF: return tls->is_at_end;
    default: return 0;
  }
}

static BIO_METHOD *method;
static int own_index = 0;

static void make_method(void) {
  method = openssl.BIO_meth_new(BIO_TYPE_SOURCE_SINK | 0x7F, "rlhost stream");
  if (!method) abort();
  openssl.BIO_meth_set_read(method, bio_read);
  openssl.BIO_meth_set_write(method, bio_write);
  openssl.BIO_meth_set_ctrl(method, bio_control);
}

// Sessions ------------------------------------------------------------------------------------------------------------

static int verified(int is_right, X509_STORE_CTX *store) {
  if (is_right) return 1;
  SSL *ssl = openssl.X509_STORE_CTX_get_ex_data(store, openssl.SSL_get_ex_data_X509_STORE_CTX_idx());
  struct net_tls *tls = openssl.SSL_get_ex_data(ssl, own_index);
  X509 *certificate = openssl.X509_STORE_CTX_get_current_cert(store);
  tls->has_wrong = 1;
  tls->wrong_depth = openssl.X509_STORE_CTX_get_error_depth(store);
  snprintf(tls->wrong_subject, sizeof tls->wrong_subject, "no subject");
  BIO *out = certificate ? openssl.BIO_new(openssl.BIO_s_mem()) : NULL;
  if (out) {
    openssl.X509_NAME_print_ex(out, openssl.X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    int n = openssl.BIO_read(out, tls->wrong_subject, sizeof tls->wrong_subject - 1);
    if (n > 0) tls->wrong_subject[n] = 0;
    openssl.BIO_free(out);
  }
  return 0;
}

static int is_address(const char *name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

struct net_tls *net_tls_make(struct net_tls_context *context, const char *name, net_tls_reader reader,
                             net_tls_writer writer) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_method);
  struct net_tls *tls = calloc(1, sizeof *tls);
  if (!tls) return NULL;
  tls->reader = reader;
  tls->writer = writer;
  tls->is_server = context->is_server;
  tls->verifies = context->verifies;
  tls->lacks_authorities = context->lacks_authorities;
  tls->ssl = openssl.SSL_new(context->context);
  BIO *bio = tls->ssl ? openssl.BIO_new(method) : NULL;
  if (!bio) {
    net_tls_free(tls);
    return NULL;
  }
  openssl.BIO_set_data(bio, tls);
  openssl.BIO_set_init(bio, 1);
  openssl.SSL_set_bio(tls->ssl, bio, bio);
  openssl.SSL_set_ex_data(tls->ssl, own_index, tls);
  openssl.SSL_set_verify(tls->ssl,
                         !context->verifies   ? SSL_VERIFY_NONE
                         : context->is_server ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                                              : SSL_VERIFY_PEER,
                         verified);
  if (context->is_server) {
    openssl.SSL_set_accept_state(tls->ssl);
  } else {
    openssl.SSL_set_connect_state(tls->ssl);
    if (name && is_address(name)) {
      if (context->verifies) openssl.X509_VERIFY_PARAM_set1_ip_asc(openssl.SSL_get0_param(tls->ssl), name);
    } else if (name) {
      openssl.SSL_ctrl(tls->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)name);
      if (context->verifies) openssl.SSL_set1_host(tls->ssl, name);
    }
    if (context->protocols_length)
      openssl.SSL_set_alpn_protos(tls->ssl, context->protocols, (unsigned)context->protocols_length);
  }
  openssl.ERR_clear_error();
  return tls;
}

void net_tls_free(struct net_tls *tls) {
  if (tls->ssl) openssl.SSL_free(tls->ssl);
  free(tls);
}

void net_tls_set_stream(struct net_tls *tls, void *stream) { tls->stream = stream; }

int net_tls_hello(SSL *ssl, int *alert, void *argument) {
  struct net_tls *tls = openssl.SSL_get_ex_data(ssl, own_index);
  if (tls->has_choice) return SSL_CLIENT_HELLO_SUCCESS;
  if (tls->refusal) {
    *alert = tls->refusal;
    return SSL_CLIENT_HELLO_ERROR;
  }
  if (!tls->was_asked) {
    const unsigned char *extension;
    size_t length;
    tls->was_asked = 1;
    // A list of names, in practice with one host: two bytes of length, the kind, two bytes of length, the name.
    if (openssl.SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &extension, &length) == 1 && length > 5 &&
        extension[2] == 0) {
      size_t size = (size_t)extension[3] << 8 | extension[4];
      if (size <= length - 5 && size < sizeof tls->name) memcpy(tls->name, extension + 5, size);
    }
  }
  return SSL_CLIENT_HELLO_RETRY;
}

const char *net_tls_name(struct net_tls *tls) { return tls->name; }

void net_tls_choose(struct net_tls *tls, struct net_tls_context *context) {
  tls->has_choice = 1;
  if (!context) return;
  tls->verifies = context->verifies;
  openssl.SSL_set_SSL_CTX(tls->ssl, context->context);
  openssl.SSL_set_verify(
      tls->ssl, context->verifies ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, verified);
}

void net_tls_refuse(struct net_tls *tls, int is_unknown) {
  tls->refusal = is_unknown ? SSL_AD_UNRECOGNIZED_NAME : SSL_AD_INTERNAL_ERROR;
}

static int explain(struct net_tls *tls, int result) {
  int kind = openssl.SSL_get_error(tls->ssl, result);
  switch (kind) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return NET_TLS_WAIT;
    case SSL_ERROR_WANT_CLIENT_HELLO_CB: return NET_TLS_NAME;
    case SSL_ERROR_ZERO_RETURN: return NET_TLS_END;
    default: break;
  }
  unsigned long error = openssl.ERR_peek_error();
  int reason = ERR_GET_REASON(error);
  if (tls->is_at_end && (kind == SSL_ERROR_SYSCALL || error == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
    tls->code = "TLS_TRUNCATED";
    snprintf(tls->text, sizeof tls->text, "the connection was cut: it ended without the TLS close alert");
  } else if ((tls->has_wrong && tls->verifies) || reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    long why = openssl.SSL_get_verify_result(tls->ssl);
    tls->code = "TLS_CERTIFICATE";
    if (tls->lacks_authorities)
      snprintf(tls->text, sizeof tls->text,
               "this system has no CA certificates, so no certificate can be checked: apt install ca-certificates");
    else
      snprintf(tls->text, sizeof tls->text, "certificate verify failed: %s (depth %d, %s)",
               openssl.X509_verify_cert_error_string(why), tls->wrong_depth, tls->wrong_subject);
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    tls->code = "TLS_CERTIFICATE";
    snprintf(tls->text, sizeof tls->text, "the peer has sent no certificate");
  } else {
    tls->code = "TLS";
    const char *words = error ? openssl.ERR_reason_error_string(error) : NULL;
    snprintf(tls->text, sizeof tls->text, "%s", words ? words : "the connection failed");
    // An alert about our own certificate counts as a certificate error, too.
    if (strstr(tls->text, "alert") && (strstr(tls->text, "certificate") || strstr(tls->text, "unknown ca")))
      tls->code = "TLS_CERTIFICATE";
  }
  openssl.ERR_clear_error();
  return NET_TLS_FAILED;
}

int net_tls_handshake(struct net_tls *tls) {
  openssl.ERR_clear_error();
  int result = openssl.SSL_do_handshake(tls->ssl);
  if (result == 1) return NET_TLS_DONE;
  int kind = explain(tls, result);
  if (kind != NET_TLS_END) return kind;
  tls->code = "TLS";
  snprintf(tls->text, sizeof tls->text, "the peer has ended the handshake");
  return NET_TLS_FAILED;
}

int64_t net_tls_read(struct net_tls *tls, void *bytes, size_t count) {
  openssl.ERR_clear_error();
  // A call returns one record, 16 kB at most. Filling the buffer with several records saves turns of the loop.
  size_t total = 0;
  while (total < count) {
    int n = openssl.SSL_read(tls->ssl, (char *)bytes + total, count - total > 1 << 30 ? 1 << 30 : (int)(count - total));
    if (n <= 0) {
      if (total > 0) break;
      return explain(tls, n);
    }
    total += (size_t)n;
  }
  openssl.ERR_clear_error();
  return (int64_t)total;
}

int64_t net_tls_write(struct net_tls *tls, const void *bytes, size_t count) {
  openssl.ERR_clear_error();
  int n = openssl.SSL_write(tls->ssl, bytes, count > 1 << 30 ? 1 << 30 : (int)count);
  return n > 0 ? n : explain(tls, n);
}

int net_tls_is_agreed(const struct net_tls *tls) { return openssl.SSL_is_init_finished(tls->ssl); }

void net_tls_finish(struct net_tls *tls) {
  openssl.ERR_clear_error();
  if (openssl.SSL_is_init_finished(tls->ssl) && !linux_has_forked()) openssl.SSL_shutdown(tls->ssl);
  openssl.ERR_clear_error();
}

size_t net_tls_text(const struct net_tls *tls, const void **bytes) {
  *bytes = tls->first;
  // A TLS record begins with a number below 32, an HTTP request with a capital letter.
  return tls->first_length == NET_TLS_FIRST && tls->first[0] >= 'A' && tls->first[0] <= 'Z' ? NET_TLS_FIRST : 0;
}

void net_tls_error(const struct net_tls *tls, const char **code, const char **text) {
  *code = tls->code ? tls->code : "TLS";
  *text = tls->text;
}

// Results -------------------------------------------------------------------------------------------------------------

struct answer {
  struct net_tls_info info;
  char protocol[256], subject[4096], issuer[4096], not_after[64], fingerprint[65], names[];
};

// Moves the text in the BIO's buffer to `out`. The end of a text that is too long is dropped.
static void take(BIO *bio, char *out, size_t capacity) {
  int n = openssl.BIO_read(bio, out, (int)capacity - 1);
  out[n > 0 ? n : 0] = 0;
  char rest[256];
  while (n > 0) n = openssl.BIO_read(bio, rest, sizeof rest);
}

// Writes the hosts and addresses of a certificate, if `out` is not NULL. Returns the size with the NUL at the end.
static size_t names(const GENERAL_NAMES *list, char *out) {
  size_t length = 0;
  for (int i = 0; list && i < openssl.OPENSSL_sk_num((const OPENSSL_STACK *)list); i++) {
    GENERAL_NAME *name = openssl.OPENSSL_sk_value((const OPENSSL_STACK *)list, i);
    char address[64] = "";
    const char *text = address;
    int size = 0;
    if (name->type == GEN_DNS) {
      text = (const char *)openssl.ASN1_STRING_get0_data(name->d.dNSName);
      size = openssl.ASN1_STRING_length(name->d.dNSName);
    } else if (name->type == GEN_IPADD) {
      int bytes = openssl.ASN1_STRING_length(name->d.iPAddress);
      const void *data = openssl.ASN1_STRING_get0_data(name->d.iPAddress);
      if ((bytes == 4 || bytes == 16) && inet_ntop(bytes == 4 ? AF_INET : AF_INET6, data, address, sizeof address))
        size = (int)strlen(address);
    }
    if (size <= 0 || memchr(text, 0, (size_t)size)) continue;
    if (out && length > 0) out[length - 1] = '\n';
    if (out) memcpy(out + length, text, (size_t)size);
    length += (size_t)size + 1;
  }
  if (out) out[length > 0 ? length - 1 : 0] = 0;
  return length > 0 ? length : 1;
}

struct net_tls_info *net_tls_info(struct net_tls *tls) {
  X509 *certificate = openssl.SSL_get1_peer_certificate(tls->ssl);
  GENERAL_NAMES *list = certificate ? openssl.X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL) : NULL;
  struct answer *answer = calloc(1, sizeof *answer + names(list, NULL));
  if (answer) {
    names(list, answer->names);
    const SSL_CIPHER *cipher = openssl.SSL_get_current_cipher(tls->ssl);
    answer->info = (struct net_tls_info){
        .version = openssl.SSL_get_version(tls->ssl),
        .cipher = cipher ? openssl.SSL_CIPHER_get_name(cipher) : "",
        .protocol = answer->protocol,
        .subject = answer->subject,
        .issuer = answer->issuer,
        .names = answer->names,
        .not_after = answer->not_after,
        .fingerprint = answer->fingerprint,
        .has_certificate = certificate != NULL,
        .is_verified = certificate && openssl.SSL_get_verify_result(tls->ssl) == X509_V_OK,
    };
    const unsigned char *protocol;
    unsigned length;
    openssl.SSL_get0_alpn_selected(tls->ssl, &protocol, &length);
    if (length > 0 && length < sizeof answer->protocol) memcpy(answer->protocol, protocol, length);
  }
  BIO *out = answer && certificate ? openssl.BIO_new(openssl.BIO_s_mem()) : NULL;
  if (out) {
    openssl.X509_NAME_print_ex(out, openssl.X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    take(out, answer->subject, sizeof answer->subject);
    openssl.X509_NAME_print_ex(out, openssl.X509_get_issuer_name(certificate), 0, XN_FLAG_RFC2253);
    take(out, answer->issuer, sizeof answer->issuer);
    openssl.ASN1_TIME_print(out, openssl.X509_get0_notAfter(certificate));
    take(out, answer->not_after, sizeof answer->not_after);
    openssl.BIO_free(out);
    unsigned char digest[64];
    unsigned size = 0;
    openssl.X509_digest(certificate, openssl.EVP_sha256(), digest, &size);
    for (unsigned i = 0; i < size && i < 32; i++) snprintf(answer->fingerprint + 2 * i, 3, "%02x", digest[i]);
  }
  if (list) openssl.GENERAL_NAMES_free(list);
  if (certificate) openssl.X509_free(certificate);
  return answer ? &answer->info : NULL;
}
