// Keeps the list of allowances, enters the sandbox, and writes the text of a refusal. sandbox_landlock.c and
// sandbox_filter.c tell the kernel the restrictions.
#define _GNU_SOURCE
#include "sandbox_private.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "errors.h"

enum { MOST_LAYERS = 16 };
static const char *const names[LINUX_ALLOWANCES] = {"read", "write", "connect", "listen", "run", "env", "modules"};

static linux_sandbox *entered;
static struct timespec entered_at;

linux_sandbox *linux_new_sandbox(void) { return calloc(1, sizeof(linux_sandbox)); }

void linux_free_sandbox(linux_sandbox *it) {
  for (int i = 0; it && i < it->count; i++) free(it->items[i].text);
  if (it) free(it->items);
  free(it);
}

// Allowances -----------------------------------------------------------------------------------------------------

static allowance *add(linux_sandbox *it, enum linux_allowance kind, const char *text) {
  if (it->count == it->capacity) {
    int capacity = it->capacity ? it->capacity * 2 : 32;
    allowance *larger = realloc(it->items, (size_t)capacity * sizeof *larger);
    if (!larger) abort();
    it->items = larger;
    it->capacity = capacity;
  }
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  if (!copy) abort();
  memcpy(copy, text, size);
  it->items[it->count] = (allowance){.kind = kind, .text = copy};
  return &it->items[it->count++];
}

static allowance *imply(linux_sandbox *it, enum linux_allowance kind, const char *path) {
  allowance *new = add(it, kind, path);
  new->is_implied = 1;
  return new;
}

// Finds a program as execvp does. Returns 0 if there is none.
static int find_program(const char *name, char path[PATH_MAX]) {
  if (strchr(name, '/')) return realpath(name, path) != NULL;
  const char *folders = getenv("PATH");
  if (!folders) folders = "/bin:/usr/bin";
  for (const char *at = folders; *at;) {
    size_t length = strcspn(at, ":");
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%.*s/%s", (int)length, length ? at : ".", name);
    if (access(whole, X_OK) == 0 && realpath(whole, path)) return 1;
    at += length + (at[length] == ':');
  }
  return 0;
}

// Allows the interpreter in the first line of a script, which the kernel starts instead of the script.
static void add_interpreter(linux_sandbox *it, const char *path) {
  char line[256], interpreter[PATH_MAX], *at = line + 2;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t count = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
  if (fd >= 0) close(fd);
  if (count < 3 || line[0] != '#' || line[1] != '!') return;
  line[count] = 0;
  at += strspn(at, " \t");
  at[strcspn(at, " \t\r\n")] = 0;
  if (realpath(at, interpreter)) add(it, LINUX_ALLOW_RUN, interpreter)->is_implied = 1;
}

// Keeps the first refusal.
static void refuse(linux_sandbox *it, int status, const char *form, ...) __attribute__((format(printf, 3, 4)));
static void refuse(linux_sandbox *it, int status, const char *form, ...) {
  va_list arguments;
  if (it->status) return;
  it->status = status;
  va_start(arguments, form);
  vsnprintf(it->reason, sizeof it->reason, form, arguments);
  va_end(arguments);
}

static void add_path(linux_sandbox *it, enum linux_allowance kind, const char *value) {
  char path[PATH_MAX];
  int is_there = kind == LINUX_ALLOW_RUN ? find_program(value, path) : realpath(value, path) != NULL;
  if (!is_there) {
    const char *reason = kind == LINUX_ALLOW_RUN && !strchr(value, '/') ? "no such program" : strerror(errno);
    return refuse(it, 66, "--allow-%s=%.200s: %c%s", names[kind], value, tolower(*reason), reason + 1);
  }
  add(it, kind, path);
  if (kind == LINUX_ALLOW_RUN) add_interpreter(it, path);
}

static void add_address(linux_sandbox *it, enum linux_allowance kind, const char *value) {
  if (strncmp(value, "port:", 5) == 0 && value[5]) {
    add(it, kind, value)->is_message_port = 1;
    return;
  }
  const char *colon = strrchr(value, ':'), *number = colon ? colon + 1 : value;
  char *end;
  long port = strtol(number, &end, 10);
  int takes_host = kind == LINUX_ALLOW_CONNECT && colon > value;
  if (!isdigit(*number) || *end || port > 65535 || (colon && !takes_host))
    return refuse(it, 64,
                  kind == LINUX_ALLOW_CONNECT
                      ? "--allow-connect=HOST:PORT, =PORT or =port:NAME is expected, not '%.200s'"
                      : "--allow-listen=PORT or =port:NAME is expected, not '%.200s'",
                  value);
  allowance *new = add(it, kind, value);
  new->port = (uint16_t)port;
  new->is_host = colon != NULL;
}

void linux_allow(linux_sandbox *it, enum linux_allowance kind, const char *value) {
  it->some[kind] = 1;
  if (!it->first) it->first = names[kind];
  if (!value || kind == LINUX_ALLOW_MODULES) it->all[kind] = 1;
  else if (!*value) refuse(it, 64, "--allow-%s= needs a value; without '=' it allows all", names[kind]);
  else if (kind == LINUX_ALLOW_CONNECT || kind == LINUX_ALLOW_LISTEN) add_address(it, kind, value);
  else if (kind == LINUX_ALLOW_ENV) add(it, kind, value);
  else add_path(it, kind, value);
}

int linux_allow_option(linux_sandbox *it, const char *option) {
  const char *name = option + sizeof "--allow-" - 1;
  if (strncmp(option, "--allow-", sizeof "--allow-" - 1) != 0) return 0;
  size_t length = strcspn(name, "=");
  enum linux_allowance kind = 0;
  while (kind < LINUX_ALLOWANCES && (strncmp(name, names[kind], length) != 0 || names[kind][length])) kind++;
  if (kind == LINUX_ALLOWANCES || (kind == LINUX_ALLOW_MODULES && name[length])) return 0;
  const char *value = name[length] ? name + length + 1 : NULL;
  if (kind != LINUX_ALLOW_ENV || !value) return linux_allow(it, kind, value), 1;
  // Names of variables have no commas.
  char *list = strdup(value), *rest = list;
  if (!list) abort();
  for (char *one; (one = strsep(&rest, ","));)
    if (*one) linux_allow(it, kind, one);
  free(list);
  return 1;
}

int linux_allows_some(const linux_sandbox *it, enum linux_allowance kind) { return it->some[kind]; }

const char *linux_first_allowed(const linux_sandbox *it) { return it->first; }

const char *linux_listened_port(const linux_sandbox *it, int index) {
  for (int i = 0; i < it->count; i++)
    if (it->items[i].kind == LINUX_ALLOW_LISTEN && it->items[i].is_message_port && index-- == 0)
      return it->items[i].text + sizeof "port:" - 1;
  return NULL;
}

static int is_below(const char *path, const char *top) {
  size_t length = strlen(top);
  return strcmp(top, "/") == 0 || (strncmp(path, top, length) == 0 && (!path[length] || path[length] == '/'));
}

static int is_named_below(const linux_sandbox *it, enum linux_allowance kind, const char *path) {
  if (it->all[kind]) return 1;
  for (int i = 0; i < it->count; i++)
    if (it->items[i].kind == kind && is_below(path, it->items[i].text)) return 1;
  return 0;
}

static int covers(const linux_sandbox *it, enum linux_allowance kind, const char *path) {
  if (is_named_below(it, kind, path)) return 1;
  // The links in allowed paths are resolved only here, since most programs are never refused anything.
  for (int i = 0; i < it->count; i++) {
    char real[PATH_MAX];
    const allowance *item = &it->items[i];
    if (item->kind == kind && item->has_links && realpath(item->text, real) && is_below(path, real)) return 1;
  }
  return 0;
}

void linux_allow_script(linux_sandbox *it, const char *path) {
  char here[PATH_MAX], whole[2 * PATH_MAX];
  size_t length = 0, size = strlen(path) + 1;
  if (size > PATH_MAX || (*path != '/' && syscall(SYS_getcwd, here, sizeof here) < 0)) return;
  if (*path != '/') {
    length = strlen(here);
    memcpy(whole, here, length);
    whole[length++] = '/';
    memcpy(whole + length, path, size);
  }
  allowance *new = imply(it, LINUX_ALLOW_READ, *path == '/' ? path : whole);
  new->has_links = new->is_file = 1;
  it->script = new->text;
}

// Allows reading the files whose names have an ending, in a folder and in `depth - 1` levels of folders below. A link
// may lead anywhere, so links are not followed.
static void add_endings(linux_sandbox *it, const char *folder, const char *ending, int depth, int *left) {
  DIR *directory = opendir(folder);
  if (!directory) return;
  for (struct dirent *entry; *left > 0 && (entry = readdir(directory)); --*left) {
    char path[PATH_MAX];
    size_t length = strlen(entry->d_name), end = strlen(ending);
    int type = entry->d_type, has_ending = length > end && strcmp(entry->d_name + length - end, ending) == 0;
    struct stat status;
    int is_long = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path;
    if (*entry->d_name == '.' || is_long) continue;
    // Some file systems do not report the type.
    if (type == DT_UNKNOWN && lstat(path, &status) == 0) type = IFTODT(status.st_mode);
    if (type == DT_DIR && depth > 1) add_endings(it, path, ending, depth - 1, left);
    if (type == DT_REG && has_ending && !(it->script && strcmp(it->script, path) == 0))
      add(it, LINUX_ALLOW_READ, path)->is_file = 1;
  }
  closedir(directory);
}

static int is_top(const struct stat *status) {
  struct stat top;
  return stat("/", &top) == 0 && status->st_ino == top.st_ino && status->st_dev == top.st_dev;
}

// Returns 0 if the part of the text is too long.
static int copy_part(char *to, size_t size, const char *text, size_t length) {
  if (length >= size) return 0;
  memcpy(to, text, length);
  to[length] = 0;
  return 1;
}

void linux_allow_templates(linux_sandbox *it, const char *templates) {
  const char *last = NULL;
  if (it->all[LINUX_ALLOW_READ]) return;
  for (const char *at = templates; *at; at += strcspn(at, ";"), at += *at == ';') {
    char folder[PATH_MAX], path[PATH_MAX], ending[64];
    size_t whole = strcspn(at, ";"), length = 0;
    const char *mark = NULL, *dot = NULL;
    struct stat status;
    for (size_t i = 0; i < whole; i++) {
      if (!mark && at[i] == '/') length = i + 1;
      if (!mark && at[i] == '?') mark = at + i;
      if (at[i] == '.') dot = at + i;
    }
    if (!mark || !dot || dot < mark) continue;
    // A folder's `?.lua` and `?/init.lua` follow each other.
    int is_last = last && strncmp(at, last, length) == 0 && !memchr(last + length, '/', strcspn(last + length, "?"));
    last = at;
    if (is_last || !copy_part(folder, sizeof folder, length ? at : ".", length ? length : 1)) continue;
    if (syscall(SYS_newfstatat, AT_FDCWD, folder, &status, 0) != 0 ||
        !copy_part(ending, sizeof ending, dot, (size_t)(at + whole - dot)))
      continue;
    for (size_t end = strlen(folder); end > 1 && folder[end - 1] == '/';) folder[--end] = 0;
    int left = 10000;
    if (*folder == '/' && !is_top(&status)) imply(it, LINUX_ALLOW_READ, folder)->has_links = 1;
    else if (realpath(folder, path) && !is_named_below(it, LINUX_ALLOW_READ, path))
      add_endings(it, path, ending, 3, &left);
  }
}

void linux_set_port_directory(linux_sandbox *it, const char *path) { it->port_directory = path; }

const char *linux_port_directory(void) {
  for (const linux_sandbox *it = entered; it; it = it->outer)
    if (it->port_directory) return it->port_directory;
  return NULL;
}

// Needs of the program itself ----------------------------------------------------------------------------------------

static void imply_each(linux_sandbox *it, enum linux_allowance kind, const char *const *paths, size_t count) {
  for (size_t i = 0; i < count; i++) imply(it, kind, paths[i]);
}
#define IMPLY(it, kind, paths) imply_each(it, kind, paths, sizeof(paths) / sizeof *(paths))

static long read_link(const char *path, char *target, size_t size) {
  return syscall(SYS_readlinkat, AT_FDCWD, path, target, size);
}

// Each path adds 4 µs to a start in a sandbox; the first path below /proc adds 16 µs.
static void imply_all(linux_sandbox *it) {
  // Libraries that are opened only at their first use, and the files of time zones.
  static const char *const always[] = {"/usr/lib", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo",
                                       "/dev/urandom"};
  // The settings of OpenSSL, and the figures of this process (memory, CPU time, descriptors) that servers report.
  static const char *const for_network[] = {"/etc/ssl/openssl.cnf", "/proc/self/stat", "/proc/self/statm",
                                            "/proc/self/fd"};
  static const char *const for_names[] = {"/etc/hosts",
                                          "/etc/resolv.conf",
                                          "/etc/nsswitch.conf",
                                          "/etc/gai.conf",
                                          "/etc/host.conf",
                                          "/etc/services",
                                          "/etc/protocols",
                                          "/etc/ssl/certs",
                                          "/etc/ssl/cert.pem",
                                          "/usr/share/ca-certificates",
                                          "/usr/local/share/ca-certificates",
                                          "/etc/pki/tls/certs",
                                          "/etc/pki/ca-trust",
                                          "/etc/ca-certificates"};
  static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"};
  IMPLY(it, LINUX_ALLOW_READ, always);
  imply(it, LINUX_ALLOW_READ, "/dev/null");
  imply(it, LINUX_ALLOW_WRITE, "/dev/null")->is_file = 1;
  char target[64];
  long length = read_link("/etc/localtime", target, sizeof target - 1);
  target[length < 0 ? 0 : length] = 0;
  if (strncmp(target, "/usr/share/zoneinfo/", 20) != 0) imply(it, LINUX_ALLOW_READ, "/etc/localtime");
  // These paths are allowed only on systems where they are directories with libraries. On other systems they are links
  // to the directories above, or contain only the dynamic loader.
  if (read_link("/lib", target, sizeof target) < 0) imply(it, LINUX_ALLOW_READ, "/lib");
  if (syscall(SYS_faccessat, AT_FDCWD, "/usr/lib64/libc.so.6", F_OK) == 0) imply(it, LINUX_ALLOW_READ, "/usr/lib64");
  if (read_link("/lib64", target, sizeof target) < 0) imply(it, LINUX_ALLOW_READ, "/lib64");
  if (it->some[LINUX_ALLOW_CONNECT] || it->some[LINUX_ALLOW_LISTEN]) IMPLY(it, LINUX_ALLOW_READ, for_network);
  if (it->some[LINUX_ALLOW_CONNECT]) IMPLY(it, LINUX_ALLOW_READ, for_names);
  if (it->some[LINUX_ALLOW_RUN]) IMPLY(it, LINUX_ALLOW_RUN, loaders);
  if (it->all[LINUX_ALLOW_RUN]) imply(it, LINUX_ALLOW_READ, "/usr"), imply(it, LINUX_ALLOW_READ, "/bin");
  if (it->all[LINUX_ALLOW_LISTEN] && it->port_directory) {
    imply(it, LINUX_ALLOW_WRITE, it->port_directory);
    imply(it, LINUX_ALLOW_READ, it->port_directory);
  }
}

// The process --------------------------------------------------------------------------------------------------------

// If the process runs as root, it keeps the capabilities for its own files, signals and ports below 1024.
static void drop_capabilities(void) {
  enum {
    KEPT = 1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FOWNER | 1 << CAP_FSETID | 1 << CAP_KILL |
           1 << CAP_NET_BIND_SERVICE
  };
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{0}};
  if (syscall(SYS_capget, &head, data)) return;
  for (int i = 0; i < 2; i++) {
    unsigned kept = i ? 0 : KEPT;
    data[i].effective &= kept, data[i].permitted &= kept, data[i].inheritable &= kept;
  }
  syscall(SYS_capset, &head, data);
}

static int keeps_variable(const linux_sandbox *it, const char *entry) {
  if (it->all[LINUX_ALLOW_ENV]) return 1;
  if (!it->some[LINUX_ALLOW_ENV] && !it->some[LINUX_ALLOW_LISTEN]) return 0;
  size_t length = strcspn(entry, "=");
  if (it->some[LINUX_ALLOW_LISTEN] && strncmp(entry, "LISTEN_", 7) == 0) return 1;
  for (int i = 0; i < it->count; i++)
    if (it->items[i].kind == LINUX_ALLOW_ENV && strlen(it->items[i].text) == length &&
        strncmp(it->items[i].text, entry, length) == 0)
      return 1;
  return 0;
}

// Removes variables, and overwrites the initial ones in memory, since other processes may read that memory in /proc.
static void clear_environment(const linux_sandbox *it) {
  char **arguments = linux_arguments(), *first = arguments ? arguments[0] : NULL, **to = environ;
  for (char **from = environ; from && *from; from++) {
    if (keeps_variable(it, *from)) *to++ = *from;
    else if (first && *from > first && *from - first < 1 << 22) memset(*from, 0, strlen(*from));
  }
  if (to) *to = NULL;
}

void linux_close_inherited(void) {
  const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
  int kept = process && count && atoi(process) == getpid() && atoi(count) > 0 ? atoi(count) : 0;
  struct rlimit limit = {.rlim_cur = 0};
  if (kept > 1 << 20 || syscall(SYS_close_range, 3U + (unsigned)kept, ~0U, 0) == 0) return;
  // Linux before 5.9 does not have close_range: try each number. Descriptors that this process has opened itself have
  // FD_CLOEXEC, and stay open.
  getrlimit(RLIMIT_NOFILE, &limit);
  for (int fd = 3 + kept; fd < (int)limit.rlim_cur && fd < 1 << 20; fd++) {
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC)) close(fd);
  }
}

static void note(char text[1024], const char *form, ...) __attribute__((format(printf, 2, 3)));
static void note(char text[1024], const char *form, ...) {
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, form);
  if (length) text[length++] = '\n';
  vsnprintf(text + length, 1024 - length, form, arguments);
  va_end(arguments);
}

static int has_filters(void) {
  uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static void find_missing(const linux_sandbox *it, int abi, int has_filter, char text[1024]) {
  if (abi < 1)
    note(text,
         "this kernel cannot restrict files: Landlock is missing (Linux 5.13, and landlock in lsm=); "
         "ABI 1 is needed");
  int has_ports = 0;
  for (int i = 0; i < it->count && !has_ports; i++)
    if ((it->items[i].kind == LINUX_ALLOW_CONNECT || it->items[i].kind == LINUX_ALLOW_LISTEN) &&
        !it->items[i].is_message_port && !it->all[it->items[i].kind]) {
      has_ports = 1;
      if (abi < 4)
        note(text, "this kernel can allow all of TCP or none: Landlock ABI %d; 4 is needed for --allow-%s", abi,
             it->items[i].kind == LINUX_ALLOW_CONNECT ? "connect=HOST:PORT" : "listen=PORT");
    }
  if (abi < 6 && it->some[LINUX_ALLOW_RUN])
    note(text, "this kernel lets programs send signals to all others: Landlock ABI %d; 6 is needed for --allow-run",
         abi);
  if (!has_filter) note(text, "this kernel cannot restrict sockets and other calls: seccomp is missing");
}

int linux_enter_sandbox(linux_sandbox *it, int goes_on, char text[1024]) {
  memcpy(text, it->reason, sizeof it->reason);
  if (it->status) return it->status;
  int abi = linux_landlock_abi(), has_filter = has_filters();
  find_missing(it, abi, has_filter, text);
  if (*text && !goes_on) return 69;
  int needs_doorman = 0;
  for (int i = 0; i < it->count; i++) needs_doorman |= it->items[i].kind == LINUX_ALLOW_CONNECT;
  imply_all(it);
  drop_capabilities();
  syscall(SYS_prlimit64, 0, RLIMIT_CORE, &(struct rlimit){0, 0}, NULL);
  const char *call = "fork";
  int error = 0;
  if (needs_doorman || it->all[LINUX_ALLOW_CONNECT]) error = linux_start_doorman(it);
  else linux_drop_doorman();
  if (!error) call = "prctl", error = syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? errno : 0;
  if (!error) call = "landlock", error = linux_restrict(it, abi);
  if (!error && has_filter) call = "seccomp", error = linux_install_filter(it, abi);
  *text = error ? 0 : *text;
  if (error == E2BIG) note(text, "the kernel allows %d sandboxes inside one another: one too many", MOST_LAYERS);
  else if (error) note(text, "%s: %s", call, linux_error_name(error));
  if (error) return 69;
  clear_environment(it);
  it->outer = entered;
  entered = it;
  if (!it->outer) clock_gettime(CLOCK_BOOTTIME, &entered_at);
  return 0;
}

// Refusals -----------------------------------------------------------------------------------------------------------

int linux_threads(void) {
  struct stat status;
  // The link count of a directory is two, plus one for each subdirectory; here each thread has a subdirectory.
  return stat("/proc/self/task", &status) ? 0 : (int)status.st_nlink - 2;
}

double linux_sandboxed_at(void) { return (double)entered_at.tv_sec + (double)entered_at.tv_nsec / 1e9; }

int linux_is_sandboxed(void) { return entered != NULL; }

int linux_allows_modules(void) {
  for (const linux_sandbox *it = entered; it; it = it->outer)
    if (!it->all[LINUX_ALLOW_MODULES]) return 0;
  return 1;
}

// Replaces the last name of a path by the target of its link. Returns 0 if the path is not a link.
static int follow(char path[PATH_MAX]) {
  char target[PATH_MAX], whole[2 * PATH_MAX], *slash = strrchr(path, '/');
  ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) return 0;
  target[length] = 0;
  int before = *target == '/' || !slash ? 0 : (int)(slash - path) + 1;
  return snprintf(whole, sizeof whole, "%.*s%s", before, path, target) < PATH_MAX ? strcpy(path, whole) != NULL : 0;
}

// Resolves the part of a path that exists, and a link whose target does not exist.
static void resolve(const char *subject, char path[PATH_MAX]) {
  enum { MOST_LINKS = 40 };
  int links = 0;
  char rest[PATH_MAX] = "", head[PATH_MAX], here[PATH_MAX];
  if (*subject == '/' || !getcwd(here, sizeof here)) snprintf(head, sizeof head, "%s", subject);
  else if (snprintf(head, sizeof head, "%s/%s", here, subject) >= PATH_MAX) *head = 0;
  while (!realpath(head, path)) {
    if (links++ < MOST_LINKS && follow(head)) continue;
    char *slash = strrchr(head, '/'), tail[PATH_MAX];
    if (!slash) break;
    snprintf(tail, sizeof tail, "%s%s", slash, rest);
    strcpy(rest, tail);
    *slash = 0;
    if (slash == head) {
      *path = 0;
      break;
    }
  }
  if (strlen(path) + strlen(rest) < PATH_MAX) strcat(*rest && strcmp(path, "/") == 0 ? memset(path, 0, 2) : path, rest);
}

static int covers_address(const linux_sandbox *it, enum linux_allowance kind, const char *subject) {
  const char *colon = strrchr(subject, ':');
  int is_any_port = colon && strcmp(colon, ":PORT") == 0;
  if (it->all[kind]) return 1;
  for (int i = 0; i < it->count; i++) {
    const allowance *item = &it->items[i];
    if (item->kind != kind) continue;
    if (strcmp(item->text, subject) == 0) return 1;
    if (item->is_host && is_any_port && strncmp(item->text, subject, (size_t)(colon - subject) + 1) == 0) return 1;
    if (!item->is_host && !item->is_message_port && colon && strncmp(subject, "port:", 5) != 0 &&
        (is_any_port || strcmp(item->text, colon + 1) == 0))
      return 1;
  }
  return 0;
}

static int allows(const linux_sandbox *it, enum linux_allowance kind, const char *subject, char path[PATH_MAX]) {
  switch (kind) {
    case LINUX_ALLOW_READ:
    case LINUX_ALLOW_WRITE: return resolve(subject, path), covers(it, kind, path);
    case LINUX_ALLOW_RUN: return !find_program(subject, path) || covers(it, kind, path);
    case LINUX_ALLOW_ENV: return it->all[kind] || keeps_variable(it, subject);
    case LINUX_ALLOW_MODULES: return it->all[kind];
    default: return covers_address(it, kind, subject);
  }
}

// The last text of each thread. A thread-local buffer for the longest path would cost memory in each thread.
static pthread_key_t texts;
static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static void make_texts(void) { pthread_key_create(&texts, free); }

const char *linux_refusal(enum linux_allowance kind, const char *subject) {
  char path[PATH_MAX] = "";
  int before = errno;
  const linux_sandbox *it = entered;
  while (it && allows(it, kind, subject, path)) it = it->outer;
  if (!it) return errno = before, NULL;
  const char *value = subject;
  if (kind <= LINUX_ALLOW_WRITE) {
    struct stat status;
    char *slash = strrchr(path, '/');
    if (slash && !(stat(path, &status) == 0 && S_ISDIR(status.st_mode))) slash[slash == path] = 0;
    value = path;
  } else if (kind == LINUX_ALLOW_LISTEN && strncmp(subject, "port:", 5) != 0) {
    value = strrchr(subject, ':') ? strrchr(subject, ':') + 1 : subject;
  }
  int names_all = kind == LINUX_ALLOW_MODULES ||
                  (kind != LINUX_ALLOW_READ && kind != LINUX_ALLOW_WRITE && strncmp(subject, "unix:", 5) == 0);
  pthread_once(&texts_once, make_texts);
  free(pthread_getspecific(texts));
  char *text = NULL;
  if (asprintf(&text, "not allowed by the sandbox: --allow-%s%s%s", names[kind], names_all ? "" : "=",
               names_all ? "" : value) < 0)
    text = NULL;
  pthread_setspecific(texts, text);
  errno = before;
  return text ? text : "not allowed by the sandbox";
}
