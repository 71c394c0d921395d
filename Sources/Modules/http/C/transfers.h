// libcurl, loaded at its first use, and what is kept of a transfer. Between the C files of this target.
#pragma once

#include <HTTP.h>
#include <curl/curl.h>
#include <deflate.h>
#include <lauxlib.h>

#define CURL_FUNCTIONS(X) \
  X(curl_global_init) X(curl_version_info) X(curl_easy_init) X(curl_easy_cleanup) X(curl_easy_setopt) X(curl_easy_getinfo) \
  X(curl_easy_pause) X(curl_easy_strerror) X(curl_slist_append) X(curl_slist_free_all) X(curl_multi_init) X(curl_multi_cleanup) \
  X(curl_multi_setopt) X(curl_multi_add_handle) X(curl_multi_remove_handle) X(curl_multi_socket_action) X(curl_multi_info_read) \
  X(curl_share_init) X(curl_share_setopt) X(curl_share_cleanup)

/// The functions of libcurl. They check types only as functions, not as curl's macros.
extern struct curl_functions {
#define DECLARE(name) __typeof__(name) *name;
  CURL_FUNCTIONS(DECLARE)
#undef DECLARE
} lua_curl;

/// 0 if libcurl is there, which then is ready; else an error number and why not.
int lua_curl_load(char *problem, size_t size);

typedef struct lua_multi lua_multi;

/// A request and its answer, as far as they are here.
typedef struct lua_transfer {
  CURL *easy;                ///< NULL once it is over and its results were taken
  lua_multi *multi;          ///< NULL when that is closed
  struct lua_transfer *previous, *next;         ///< of the same multi
  struct lua_transfer *next_changed;
  lua_Integer number;
  struct curl_slist *lists[4];
  linux_bytes head, input, upload;
  size_t taken;              ///< of `upload`, what curl has
  size_t high_water, max_body, received;
  int head_is_complete;
  int is_in_head;            ///< between a status line and the empty line behind it
  http_answer_length length; ///< of the answer in whose head it is
  int length_may_go_on;      ///< the latest line was about the length: another line must not go on with it
  int awaits_head;           ///< counted in the multi
  char *refused_length;      ///< the Content-Length for which libcurl has refused the answer, if it is known
  int is_head;               ///< whether it is the method HEAD
  int follows, leads_on;     ///< whether redirects are followed; whether the answer is one: its body is passed over then
  int decodes;               ///< whether Content-Encoding is taken off here: the decoder, and whether it has more than `high_water` takes
  linux_decoder *decoder;
  int has_more;
  int is_paused;             ///< the answer, until somebody reads it
  int upload_is_paused, upload_ended, upload_failed;
  int upload_is_refused;     ///< curl sends no more of it, and is to notice that though it waits for a piece
  int is_changed, is_over, is_too_large;
  CURLcode code;
  long system_error;         ///< of that
  int socket_error;          ///< why there was no socket for it
  char error[CURL_ERROR_SIZE], problem[160];  ///< what curl says of it, and what was noticed here
  void *tls;                 ///< OpenSSL's context of its connection, to be compared only
  void *unended;             ///< OpenSSL's connection, whose end is the answer's, and was not announced yet
  char certificate[256];     ///< the one of the server's that was looked at last
} lua_transfer;

struct lua_multi {
  CURLM *multi;
  CURLSH *share;
  lua_transfer *transfers, *changed, *last_changed;
  lua_Integer count;
  struct lua_socket_event { int fd, what; } *events;  ///< -1 in what: close it
  size_t event_count, event_capacity, event_taken;
  long timeout;
  int timeout_changed, is_inside;
  int awaited_heads;         ///< how many transfers wait for the head of an answer
  char peeked[4096];         ///< what arrived last where one may: see `peek` in curl.c
  size_t peeked_length;
};

/// Begins a transfer with the options of the table at `index`. Raises for wrong ones.
void lua_curl_configure(lua_State *L, lua_transfer *transfer, int index);
/// Where all has come: that must be the end of what was encoded, and of what TLS has for sent, too.
void lua_curl_check_end(lua_transfer *transfer);
/// The head of its answer is here, or is not waited for any more.
void lua_curl_had_head(lua_transfer *transfer);
/// Tells Lua, when it asks next, that something about this transfer has changed.
void lua_curl_changed(lua_transfer *transfer);
/// Has curl go on with an upload for which there was nothing.
void lua_curl_resume_upload(lua_transfer *transfer);
/// Ends it, whatever it was doing.
void lua_curl_end(lua_transfer *transfer);
/// Has it note the server's certificate, where it can.
void lua_curl_note_certificates(lua_transfer *transfer);
/// What Content-Encoding says, in one or several fields.
void lua_head_codings(const linux_bytes *head, char *codings, size_t size);
/// Whether it says where to go on. curl knows the address only later: any Location that says something will do.
int lua_head_leads_on(long status, const linux_bytes *head);
/// Whether nothing but the end of the connection says where the answer's body ends. Not asked of answers to HEAD.
int lua_head_ends_with_connection(long status, const linux_bytes *head);
/// Its answer ends with its connection: whoever can cut that must not be able to cut the answer unnoticed.
void lua_curl_expect_end(lua_transfer *transfer);
int lua_curl_append(linux_bytes *to, const char *bytes, size_t length);
/// Tells Lua, when it asks next, what to watch a descriptor for.
void lua_curl_add_event(lua_multi *multi, int fd, int what);
/// Descriptors are closed by Lua; `data` is the multi.
int lua_curl_close_later(void *data, curl_socket_t fd);

extern const luaL_Reg lua_curl_transfer_methods[];
int lua_curl_collect_transfer(lua_State *L);
#define TRANSFER "runloop.http.transfer"
#define MULTI "runloop.http.multi"
