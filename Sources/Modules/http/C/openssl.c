// Information about TLS that libcurl does not report: which certificate has failed, and whether a connection was ended
// or cut. If libcurl uses OpenSSL, this file gets them from OpenSSL.
#include <dlfcn.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "transfers.h"

// clang-format off
#define OPENSSL_FUNCTIONS(X) \
  X(SSL_CTX_set_cert_verify_callback) X(SSL_get_SSL_CTX) X(SSL_get_ex_data_X509_STORE_CTX_idx) X(X509_verify_cert) \
  X(X509_STORE_CTX_get_ex_data) X(X509_STORE_CTX_get_error_depth) X(X509_STORE_CTX_get_current_cert) \
  X(X509_STORE_CTX_get0_cert) X(X509_get_subject_name) X(X509_NAME_print_ex) X(BIO_new) X(BIO_s_mem) X(BIO_read) \
  X(BIO_free) X(SSL_set_info_callback) X(SSL_set_ex_data) X(SSL_get_ex_data) X(CRYPTO_get_ex_new_index)
// clang-format on

static struct {
#define DECLARE(name) __typeof__(name) *name;
  OPENSSL_FUNCTIONS(DECLARE)
#undef DECLARE
} openssl;
static int is_there, own_index;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Finds OpenSSL if libcurl has loaded it.
static void find(void) {
  void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return;
#define FIND(name) \
  if (!(openssl.name = dlsym(library, #name))) return;
  OPENSSL_FUNCTIONS(FIND)
#undef FIND
  own_index = openssl.CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, NULL, NULL, NULL, NULL);
  is_there = own_index >= 0;
}

static void describe(char *to, size_t size, int depth, X509 *certificate) {
  char subject[200] = "no subject";
  BIO *out = certificate ? openssl.BIO_new(openssl.BIO_s_mem()) : NULL;
  if (out) {
    openssl.X509_NAME_print_ex(out, openssl.X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    int count = openssl.BIO_read(out, subject, sizeof subject - 1);
    if (count > 0) subject[count] = 0;
    openssl.BIO_free(out);
  }
  snprintf(to, size, "depth %d, %s", depth, subject);
}

// Runs OpenSSL's own check, and notes the certificate. Connections may outlive their transfer, but not the multi.
static int verify(X509_STORE_CTX *store, void *data) {
  lua_multi *multi = data;
  int is_good = openssl.X509_verify_cert(store);
  SSL *session = openssl.X509_STORE_CTX_get_ex_data(store, openssl.SSL_get_ex_data_X509_STORE_CTX_idx());
  SSL_CTX *context = session ? openssl.SSL_get_SSL_CTX(session) : NULL;
  for (lua_transfer *transfer = multi->transfers; transfer && context; transfer = transfer->next) {
    if (transfer->tls != context) continue;
    // A trusted certificate may still have another host's name.
    if (is_good > 0)
      describe(transfer->certificate, sizeof transfer->certificate, 0, openssl.X509_STORE_CTX_get0_cert(store));
    else
      describe(transfer->certificate, sizeof transfer->certificate, openssl.X509_STORE_CTX_get_error_depth(store),
               openssl.X509_STORE_CTX_get_current_cert(store));
  }
  return is_good;
}

static CURLcode on_context(CURL *easy, void *context, void *data) {
  (void)easy;
  lua_transfer *transfer = data;
  transfer->tls = context;
  openssl.SSL_CTX_set_cert_verify_callback(context, verify, transfer->multi);
  return CURLE_OK;
}

void lua_curl_note_certificates(lua_transfer *transfer) {
  const char *library = lua_curl.curl_version_info(CURLVERSION_NOW)->ssl_version;
  if (!library || strncmp(library, "OpenSSL/3", 9) != 0) return;
  pthread_once(&once, find);
  if (!is_there) return;
  lua_curl.curl_easy_setopt(transfer->easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
  lua_curl.curl_easy_setopt(transfer->easy, CURLOPT_SSL_CTX_DATA, transfer);
}

// OpenSSL calls this when the server announces the end of its output, before curl sees the end.
static void on_info(const SSL *session, int what, int alert) {
  if (what != SSL_CB_READ_ALERT || (alert & 0xff) != SSL_AD_CLOSE_NOTIFY) return;
  lua_multi *multi = openssl.SSL_get_ex_data(session, own_index);
  for (lua_transfer *transfer = multi ? multi->transfers : NULL; transfer; transfer = transfer->next)
    if (transfer->unended == session) transfer->unended = NULL;
}

void lua_curl_expect_end(lua_transfer *transfer) {
  struct curl_tlssessioninfo *info = NULL;
  if (!is_there || lua_curl.curl_easy_getinfo(transfer->easy, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK) return;
  if (!info || info->backend != CURLSSLBACKEND_OPENSSL || !info->internals) return;
  // The connection may outlive the transfer, but not the multi.
  if (!openssl.SSL_set_ex_data(info->internals, own_index, transfer->multi)) return;
  openssl.SSL_set_info_callback(info->internals, on_info);
  transfer->unended = info->internals;
}
