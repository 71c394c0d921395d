// libcurl, which is loaded at first use, and the state of a transfer. For the C files of this target.
#pragma once

#include <HTTP.h>
#include <curl/curl.h>
#include <deflate.h>
#include <lauxlib.h>

// clang-format off
#define CURL_FUNCTIONS(X) \
  X(curl_global_init) X(curl_version_info) X(curl_easy_init) X(curl_easy_cleanup) X(curl_easy_setopt) \
  X(curl_easy_getinfo) X(curl_easy_pause) X(curl_easy_strerror) X(curl_slist_append) X(curl_slist_free_all) \
  X(curl_multi_init) X(curl_multi_cleanup) X(curl_multi_setopt) X(curl_multi_add_handle) X(curl_multi_remove_handle) \
  X(curl_multi_socket_action) X(curl_multi_info_read) X(curl_share_init) X(curl_share_setopt) X(curl_share_cleanup)
// clang-format on

/// Pointers to libcurl's functions, with the types of these functions. curl's own macros would check more.
extern struct curl_functions {
#define DECLARE(name) __typeof__(name) *name;
  CURL_FUNCTIONS(DECLARE)
#undef DECLARE
} lua_curl;

/// Loads libcurl. Returns 0, or an error number with the reason.
int lua_curl_load(char *problem, size_t size);

typedef struct lua_multi lua_multi;

/// A request and as much of its answer as has arrived.
typedef struct lua_transfer {
  CURL *easy;                            ///< NULL when the results have been taken
  lua_multi *multi;                      ///< NULL when it is closed
  struct lua_transfer *previous, *next;  ///< in the same multi
  struct lua_transfer *next_changed;
  lua_Integer number;
  struct curl_slist *lists[4];
  linux_bytes head, input, upload;
  size_t taken;  ///< bytes of `upload` that curl has taken
  size_t high_water, max_body, received;
  int head_is_complete;
  int is_in_head;             ///< after a status line and before its empty line
  http_answer_length length;  ///< of the answer that is being read
  int length_may_go_on;       ///< the last line was about the length: a continuation of it is an error
  int awaits_head;            ///< counted in the multi's `awaited_heads`
  char *refused_length;       ///< the Content-Length for which libcurl has refused the answer, if known
  int is_head;                ///< the method is HEAD
  int follows, leads_on;      ///< whether to follow redirects; whether the answer is a redirect: its body is discarded
  int decodes;                ///< whether to decode the body; the decoder; whether it has more than `high_water` allows
  linux_decoder *decoder;
  int has_more;
  int is_paused;  ///< until the answer is read
  int upload_is_paused, upload_ended, upload_failed;
  int upload_is_refused;  ///< curl refuses the rest of the upload: end its wait for a piece, so that it fails
  int is_changed, is_over, is_too_large;
  CURLcode code;
  long system_error;                          ///< of `code`
  int socket_error;                           ///< why a socket could not be made
  char error[CURL_ERROR_SIZE], problem[160];  ///< curl's text, and the text of a problem found here
  int error_is_old;       ///< `error` is about a kept connection, after which curl has made a new one
  void *tls;              ///< OpenSSL's context of the connection, only for comparison
  void *unended;          ///< OpenSSL's connection, if its end is the end of the answer, and was not announced
  char certificate[256];  ///< the server's certificate that was checked last
} lua_transfer;

struct lua_socket_event {
  int fd, what;
};

struct lua_multi {
  CURLM *multi;
  CURLSH *share;
  lua_transfer *transfers, *changed, *last_changed;
  lua_Integer count;
  struct lua_socket_event *events;  ///< -1 in `what`: close it
  size_t event_count, event_capacity, event_taken;
  long timeout;
  int timeout_changed, is_inside;
  int awaited_heads;  ///< transfers that wait for the head of an answer
  char peeked[4096];  ///< the bytes that libcurl is about to read: see `peek` in curl.c
  size_t peeked_length;
};

/// Sets the options of a transfer from the table at `index`. Raises an error for wrong options.
void lua_curl_configure(lua_State *L, lua_transfer *transfer, int index);
/// Called at the end of the bytes: fails unless the encoded body and the TLS connection have ended properly.
void lua_curl_check_end(lua_transfer *transfer);
/// Notes that the head has arrived, or is not waited for any more.
void lua_curl_had_head(lua_transfer *transfer);
/// Queues a report to Lua that this transfer has changed.
void lua_curl_changed(lua_transfer *transfer);
/// Continues an upload that has waited for bytes.
void lua_curl_resume_upload(lua_transfer *transfer);
/// Ends the transfer in any state.
void lua_curl_end(lua_transfer *transfer);
/// Makes the transfer remember the server's certificate, if OpenSSL is in use.
void lua_curl_note_certificates(lua_transfer *transfer);
/// Copies the values of all Content-Encoding fields.
void lua_head_codings(const linux_bytes *head, char *codings, size_t size);
/// Whether an answer redirects. curl resolves the address later, so any Location with a value counts.
int lua_head_leads_on(long status, const linux_bytes *head);
/// Whether only the end of the connection ends the answer's body. Do not call this for answers to HEAD.
int lua_head_ends_with_connection(long status, const linux_bytes *head);
/// The answer ends with its connection: checks that TLS has announced the end, so that nobody can cut the answer
/// unnoticed.
void lua_curl_expect_end(lua_transfer *transfer);
int lua_curl_append(linux_bytes *to, const char *bytes, size_t length);
/// Queues a report to Lua about the events to watch a descriptor for.
void lua_curl_add_event(lua_multi *multi, int fd, int what);
/// Makes Lua close the descriptor; `data` is the multi.
int lua_curl_close_later(void *data, curl_socket_t fd);

extern const luaL_Reg lua_curl_transfer_methods[];
int lua_curl_collect_transfer(lua_State *L);
#define TRANSFER "runloop.http.transfer"
#define MULTI "runloop.http.multi"
