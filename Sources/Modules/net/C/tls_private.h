// Declarations that the two files of TLS share.
#pragma once

#include "openssl.h"

struct net_tls_context {
  SSL_CTX *context;
  int is_server, verifies;
  int lacks_authorities;  // whether the system has no CA certificates
  unsigned char *protocols;
  size_t protocols_length;
};

/// Returns the reason of this thread's oldest error, and clears all errors of the thread.
const char *net_tls_reason(void);
/// OpenSSL calls this function with the first message of a client.
int net_tls_hello(SSL *ssl, int *alert, void *argument);
