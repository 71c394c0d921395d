// Between the two files of TLS.
#pragma once

#include "openssl.h"

struct net_tls_context {
  SSL_CTX *context;
  int is_server, verifies;
  unsigned char *protocols;
  size_t protocols_length;
};

/// The reason of the oldest error of this thread; forgets them all.
const char *net_tls_reason(void);
/// Called when a client has said what it wants.
int net_tls_hello(SSL *ssl, int *alert, void *argument);
