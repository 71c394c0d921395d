// The functions of OpenSSL that this module calls, as pointers that net_tls_load fills.
#pragma once

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

// clang-format off
#define OPENSSL_FUNCTIONS(F) \
  F(OPENSSL_init_ssl) F(TLS_method) F(SSL_CTX_new) F(SSL_CTX_free) F(SSL_CTX_ctrl) F(SSL_CTX_set_verify) \
  F(SSL_CTX_load_verify_dir) F(SSL_CTX_load_verify_file) F(SSL_CTX_get_cert_store) F(SSL_CTX_use_certificate) \
  F(SSL_CTX_use_PrivateKey) F(SSL_CTX_check_private_key) F(SSL_CTX_add_client_CA) F(SSL_CTX_set_alpn_select_cb) \
  F(SSL_CTX_set_client_hello_cb) F(SSL_CTX_set_session_id_context) F(SSL_new) F(SSL_free) F(SSL_ctrl) F(SSL_set_bio) \
  F(SSL_set_accept_state) F(SSL_set_connect_state) F(SSL_set1_host) F(SSL_get0_param) F(SSL_set_alpn_protos) \
  F(SSL_do_handshake) F(SSL_is_init_finished) F(SSL_read) F(SSL_write) F(SSL_shutdown) F(SSL_get_error) \
  F(SSL_get_verify_result) F(SSL_get_version) F(SSL_get_current_cipher) F(SSL_CIPHER_get_name) \
  F(SSL_get0_alpn_selected) F(SSL_get1_peer_certificate) F(SSL_set_SSL_CTX) F(SSL_client_hello_get0_ext) \
  F(SSL_get_ex_data_X509_STORE_CTX_idx) F(SSL_set_ex_data) F(SSL_get_ex_data) F(SSL_select_next_proto) \
  F(SSL_set_options) F(X509_VERIFY_PARAM_set1_ip_asc) F(X509_STORE_add_cert) F(X509_STORE_CTX_get_ex_data) \
  F(X509_STORE_CTX_get_error) \
  F(X509_STORE_CTX_get_error_depth) F(X509_STORE_CTX_get_current_cert) F(X509_verify_cert_error_string) F(X509_free) \
  F(X509_get_subject_name) F(X509_get_issuer_name) F(X509_NAME_print_ex) F(X509_get0_notAfter) F(ASN1_TIME_print) \
  F(X509_digest) F(EVP_sha256) F(X509_get_ext_d2i) F(GENERAL_NAMES_free) F(OPENSSL_sk_num) F(OPENSSL_sk_value) \
  F(ASN1_STRING_get0_data) F(ASN1_STRING_length) F(EVP_PKEY_free) F(PEM_read_bio_X509) F(PEM_read_bio_PrivateKey) \
  F(BIO_new_mem_buf) F(BIO_new) F(BIO_free) F(BIO_s_mem) F(BIO_ctrl) F(BIO_read) F(BIO_meth_new) F(BIO_meth_set_read) \
  F(BIO_meth_set_write) F(BIO_meth_set_ctrl) F(BIO_set_data) F(BIO_get_data) F(BIO_set_init) F(BIO_set_flags) \
  F(BIO_clear_flags) F(ERR_get_error) F(ERR_peek_error) F(ERR_clear_error) F(ERR_reason_error_string) \
  F(SSL_CTX_set_options) F(SSL_set_verify) F(SSL_CTX_set_default_passwd_cb) \
  F(SSL_CTX_set_default_read_buffer_len)
// clang-format on

struct openssl {
#define POINTER(name) __typeof__(name) *name;
  OPENSSL_FUNCTIONS(POINTER)
#undef POINTER
};

/// net_tls_load fills it; afterwards any thread may read it.
extern struct openssl openssl;
