#define _GNU_SOURCE
#include "openssl.h"
#include "tls.h"
#include "tls_private.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <errors.h>
#include <libraries.h>
#include <sandbox.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct openssl openssl;

static const char *find_functions(void *library) {
#define FIND(name) \
  if (!(*(void **)&openssl.name = dlsym(library, #name))) return "has no " #name ": it is too old";
  OPENSSL_FUNCTIONS(FIND)
#undef FIND
  return openssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1 ? NULL : "cannot be initialized";
}

int net_tls_load(char *problem, size_t size) {
  static struct linux_library library = {"libssl.so.3", "libssl3 ca-certificates", find_functions, 0};
  return linux_use_library(&library, problem, size);
}

const char *net_tls_reason(void) {
  unsigned long error = openssl.ERR_get_error();
  const char *reason = error ? openssl.ERR_reason_error_string(error) : NULL;
  openssl.ERR_clear_error();
  return reason ? reason : "unknown reason";
}

static int fail(char code[32], char text[512], const char *name, const char *format, ...) {
  snprintf(code, 32, "%s", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, 512, format, arguments);
  va_end(arguments);
  openssl.ERR_clear_error();
  return 0;
}

static int is_text(const char *source) { return strstr(source, "-----BEGIN") != NULL; }

// Opens a BIO on a file, or on the text itself. Returns NULL if the file does not exist.
static BIO *open_source(const char *source, char **contents) {
  *contents = NULL;
  if (is_text(source)) return openssl.BIO_new_mem_buf(source, -1);
  FILE *file = fopen(source, "rbe");
  if (!file) return NULL;
  size_t length = 0, capacity = 0;
  for (;;) {
    if (length == capacity) {
      char *larger = capacity < (1 << 26) ? realloc(*contents, capacity = capacity ? capacity * 2 : 16384) : NULL;
      if (!larger) break;
      *contents = larger;
    }
    size_t n = fread(*contents + length, 1, capacity - length, file);
    if (n == 0) break;
    length += n;
  }
  int error = ferror(file) ? errno : 0;
  fclose(file);
  BIO *bio = error ? NULL : openssl.BIO_new_mem_buf(*contents, (int)length);
  if (!bio) {
    free(*contents);
    *contents = NULL;
    errno = error ? error : ENOMEM;
  }
  return bio;
}

static const char *name_of(const char *source) { return is_text(source) ? "given as text" : source; }

// Returns the system's text for an error number, without its capital letter, as in other messages.
static const char *words(int number) {
  static _Thread_local char text[128];
  const char *description = strerrordesc_np(number);
  snprintf(text, sizeof text, "%s", description ? description : "unknown error");
  if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a') text[0] += 'a' - 'A';
  return text;
}

// Explains why a source cannot be opened, by errno. Returns 0.
static int fail_to_open(const char *source, char code[32], char text[512]) {
  int number = errno;
  const char *refusal = number == EACCES && !is_text(source) ? linux_refusal(LINUX_ALLOW_READ, source) : NULL;
  return fail(code, text, linux_error_name(number), "%s (%s)", refusal ? refusal : words(number), name_of(source));
}

// A key with a password is an error: OpenSSL must not ask at the terminal.
static int no_password(char *out, int size, int writing, void *data) { return -1; }

// Calls `use` with each certificate of a source. Returns the number of certificates, or -1 after `fail`.
static int each_certificate(const char *source, int (*use)(SSL_CTX *, X509 *, int), SSL_CTX *context, char code[32],
                            char text[512]) {
  char *contents;
  BIO *bio = open_source(source, &contents);
  if (!bio) return fail_to_open(source, code, text), -1;
  int count = 0;
  X509 *certificate;
  while ((certificate = openssl.PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
    int used = use(context, certificate, count);
    openssl.X509_free(certificate);
    if (!used) {
      fail(code, text, "TLS", "certificate %d cannot be used: %s (%s)", count + 1, net_tls_reason(), name_of(source));
      count = -1;
      break;
    }
    count++;
  }
  openssl.BIO_free(bio);
  free(contents);
  if (count == 0) {
    fail(code, text, "TLS", "it contains no certificate (%s)", name_of(source));
    return -1;
  }
  openssl.ERR_clear_error();
  return count;
}

static int use_own(SSL_CTX *context, X509 *certificate, int number) {
  // The first certificate is the server's own; the others are the chain to an authority.
  if (number == 0) return openssl.SSL_CTX_use_certificate(context, certificate) == 1;
  return openssl.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, certificate) == 1;
}

static int use_trusted(SSL_CTX *context, X509 *certificate, int number) {
  openssl.SSL_CTX_add_client_CA(context, certificate);
  return openssl.X509_STORE_add_cert(openssl.SSL_CTX_get_cert_store(context), certificate) == 1;
}

static int use_key(SSL_CTX *context, const char *source, char code[32], char text[512]) {
  char *contents;
  BIO *bio = open_source(source, &contents);
  if (!bio) return fail_to_open(source, code, text);
  EVP_PKEY *key = openssl.PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
  openssl.BIO_free(bio);
  free(contents);
  if (!key) return fail(code, text, "TLS", "it contains no private key, or one with a password (%s)", name_of(source));
  int used = openssl.SSL_CTX_use_PrivateKey(context, key);
  openssl.EVP_PKEY_free(key);
  if (used == 1 && openssl.SSL_CTX_check_private_key(context) == 1) return 1;
  return fail(code, text, "TLS", "the private key does not belong to the certificate (%s)", name_of(source));
}

// Returns whether a directory has links by which OpenSSL finds certificates: a hash of eight digits, a dot, a number.
static int has_hashes(const char *path) {
  DIR *directory = opendir(path);
  int found = 0;
  for (struct dirent *entry; directory && !found && (entry = readdir(directory));)
    found = strspn(entry->d_name, "0123456789abcdef") == 8 && entry->d_name[8] == '.';
  if (directory) closedir(directory);
  return found;
}

// Prefers the directory of hashed links, which is read as needed: loading the bundle takes 17 ms.
static int trust_system(struct net_tls_context *made, char code[32], char text[512]) {
  static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";
  SSL_CTX *context = made->context;
  const char *file = getenv("SSL_CERT_FILE"), *directory = getenv("SSL_CERT_DIR");
  struct stat status;
  int loaded = 0;
  if (file && !*file) file = NULL;
  if (directory && !*directory) directory = NULL;
  if (directory) loaded |= openssl.SSL_CTX_load_verify_dir(context, directory);
  // The default bundle and directory have the same certificates: the directory suffices.
  if (file && !(loaded && strcmp(file, bundle) == 0 && strcmp(directory, "/etc/ssl/certs") == 0))
    loaded |= openssl.SSL_CTX_load_verify_file(context, file);
  if (!file && !directory) {
    if (has_hashes("/etc/ssl/certs")) loaded = openssl.SSL_CTX_load_verify_dir(context, "/etc/ssl/certs");
    else if (stat(bundle, &status) == 0) loaded = openssl.SSL_CTX_load_verify_file(context, bundle);
    else loaded = made->lacks_authorities = 1;
  }
  if (loaded == 1) return 1;
  return fail(code, text, "TLS", "the system's certificates cannot be read: %s (%s)", net_tls_reason(),
              file        ? file
              : directory ? directory
                          : "/etc/ssl/certs");
}

static int trust(SSL_CTX *context, const char *ca, char code[32], char text[512]) {
  struct stat status;
  if (!is_text(ca) && stat(ca, &status) == 0 && S_ISDIR(status.st_mode)) {
    if (openssl.SSL_CTX_load_verify_dir(context, ca) == 1) return 1;
    return fail(code, text, "TLS", "%s (%s)", net_tls_reason(), ca);
  }
  return each_certificate(ca, use_trusted, context, code, text) > 0;
}

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in,
                           unsigned in_length, void *argument) {
  struct net_tls_context *context = argument;
  if (openssl.SSL_select_next_proto((unsigned char **)out, length, context->protocols,
                                    (unsigned)context->protocols_length, in, in_length) == OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_OK;
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int configure(struct net_tls_context *made, const struct net_tls_settings *settings, char code[32],
                     char text[512]) {
  SSL_CTX *context = made->context;
  openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS,
                       NULL);
  openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION,
                       settings->min_minor == 3 ? TLS1_3_VERSION : TLS1_2_VERSION, NULL);
  openssl.SSL_CTX_set_options(context,
                              SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Reads several records with one call. The buffer exists only while there is something in it.
  openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL);
  openssl.SSL_CTX_set_default_read_buffer_len(context, 65536);
  openssl.SSL_CTX_set_default_passwd_cb(context, no_password);
  if (settings->is_server) openssl.SSL_CTX_set_session_id_context(context, (const unsigned char *)"rlhost", 6);
  if (settings->certificate) {
    if (each_certificate(settings->certificate, use_own, context, code, text) < 0) return 0;
    if (!use_key(context, settings->key ? settings->key : settings->certificate, code, text)) return 0;
  }
  if (settings->verifies) {
    if (!(settings->ca ? trust(context, settings->ca, code, text) : trust_system(made, code, text))) return 0;
  }
  if (settings->protocols_length) {
    made->protocols = malloc(settings->protocols_length);
    if (!made->protocols) return fail(code, text, "ENOMEM", "not enough memory");
    memcpy(made->protocols, settings->protocols, settings->protocols_length);
    made->protocols_length = settings->protocols_length;
    if (settings->is_server) openssl.SSL_CTX_set_alpn_select_cb(context, select_protocol, made);
  }
  if (settings->asks_for_name) openssl.SSL_CTX_set_client_hello_cb(context, net_tls_hello, NULL);
  openssl.ERR_clear_error();
  return 1;
}

struct net_tls_context *net_tls_context_make(const struct net_tls_settings *settings, char code[32], char text[512]) {
  struct net_tls_context *made = calloc(1, sizeof *made);
  if (made) made->context = openssl.SSL_CTX_new(openssl.TLS_method());
  if (made && made->context) {
    made->is_server = settings->is_server;
    made->verifies = settings->verifies;
    if (configure(made, settings, code, text)) return made;
  } else {
    fail(code, text, "ENOMEM", "not enough memory");
  }
  if (made) net_tls_context_free(made);
  return NULL;
}

void net_tls_context_free(struct net_tls_context *context) {
  // Sessions keep the SSL_CTX alive, but not the list of protocols: the context has to outlive its sessions.
  if (context->context) openssl.SSL_CTX_free(context->context);
  free(context->protocols);
  free(context);
}
