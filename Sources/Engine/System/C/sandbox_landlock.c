// Landlock restricts files, TCP ports, and access to other processes; sandbox_filter.c restricts the rest. The numbers
// of Landlock's interface are defined here, because the headers of a build may be older than the kernel.
//
// This code uses `syscall` even where the C library has a function, because the dynamic loader must look up each
// function at its first call. Costs if removed: half a microsecond for each function, in each start with a sandbox.
#define _GNU_SOURCE
#include "sandbox_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };
enum { RULE_PATH = 1, RULE_PORT = 2, BIND = 1, CONNECT = 2, ABSTRACT_SOCKETS = 1, SIGNALS = 2 };
enum {
  EXECUTE = 1 << 0,
  WRITE_FILE = 1 << 1,
  READ_FILE = 1 << 2,
  READ_DIR = 1 << 3,
  REMOVE = 3 << 4,  // directories and files
  MAKE_DEVICES = 1 << 6 | 1 << 11,
  MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12,  // directories, files, sockets, FIFOs, links
  REFER = 1 << 13,
  TRUNCATE = 1 << 14,
  DEVICES = 1 << 15,
  OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICES,
};
static const uint64_t rights[LINUX_ALLOWANCES] = {
    [LINUX_ALLOW_READ] = READ_FILE | READ_DIR | DEVICES,
    [LINUX_ALLOW_WRITE] = WRITE_FILE | REMOVE | MAKE | REFER | TRUNCATE | DEVICES,
    [LINUX_ALLOW_RUN] = EXECUTE | READ_FILE,
};

int linux_landlock_abi(void) {
  int abi = (int)syscall(CREATE_RULESET, NULL, 0, 1);
  return abi < 0 ? 0 : abi;
}

static int add_path_rule(int ruleset, const char *path, uint64_t allowed, int follows) {
  struct {
    uint64_t allowed;
    int32_t fd;
  } __attribute__((packed))
  rule = {.fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW))};
  struct stat status;
  // Paths that the sandbox adds by itself may be missing. The caller has already checked the paths of the user.
  if (rule.fd < 0) return errno == ENOENT || errno == EACCES || errno == ENOTDIR ? 0 : errno;
  rule.allowed = allowed;
  if ((allowed & ~(uint64_t)OF_FILES) && syscall(SYS_fstat, rule.fd, &status) == 0 && !S_ISDIR(status.st_mode))
    rule.allowed &= OF_FILES;
  int error = rule.allowed && syscall(ADD_RULE, ruleset, RULE_PATH, &rule, 0) ? errno : 0;
  syscall(SYS_close, rule.fd);
  return error;
}

// Returns the Landlock rights that an allowed path gives the program.
static uint64_t rights_of(const linux_sandbox *it, const allowance *item) {
  // Files of libraries are opened by name; only these two directories are ever listed.
  int is_listed =
      strcmp(item->text, "/proc/self/fd") == 0 || (it->port_directory && strcmp(item->text, it->port_directory) == 0);
  uint64_t allowed = rights[item->kind];
  if (item->is_file) allowed &= OF_FILES;
  return item->is_implied && !is_listed ? allowed & ~(uint64_t)READ_DIR : allowed;
}

static int is_rule_of(const linux_sandbox *it, int i, const char *path) {
  return i < it->count && rights[it->items[i].kind] && strcmp(it->items[i].text, path) == 0;
}

// Whether an item needs no rule: it is the script, not a link, and in a directory that the user has allowed to be read.
static int is_in_allowed_directory(const linux_sandbox *it, const allowance *item) {
  struct stat status;
  if (item->text != it->script) return 0;
  size_t length = (size_t)(strrchr(item->text, '/') - item->text);
  for (int i = 0; i < it->count; i++) {
    const allowance *other = &it->items[i];
    if (other->kind == LINUX_ALLOW_READ && !other->is_implied && strncmp(other->text, item->text, length) == 0 &&
        !other->text[length])
      return lstat(item->text, &status) == 0 && S_ISREG(status.st_mode);
  }
  return 0;
}

static int add_rules(const linux_sandbox *it, int ruleset, uint64_t files, uint64_t ports) {
  int error = 0;
  for (int kind = 0; kind < LINUX_ALLOWANCES && !error; kind++)
    if (it->all[kind] && (rights[kind] & files)) {
      // The permission to run all programs does not include the permission to read all files.
      uint64_t allowed = kind == LINUX_ALLOW_RUN ? EXECUTE : rights[kind];
      error = add_path_rule(ruleset, "/", allowed & files, 1);
    }
  for (int i = 0; i < it->count && !error; i++) {
    const allowance *item = &it->items[i];
    uint64_t port_right = item->kind == LINUX_ALLOW_CONNECT ? CONNECT : BIND;
    int is_port = item->kind == LINUX_ALLOW_CONNECT || item->kind == LINUX_ALLOW_LISTEN;
    if (is_port && !item->is_host && !item->is_message_port && (ports & port_right)) {
      struct {
        uint64_t allowed, port;
      } rule = {port_right, item->port};
      error = syscall(ADD_RULE, ruleset, RULE_PORT, &rule, 0) ? errno : 0;
    } else if ((rights[item->kind] & files) && !is_in_allowed_directory(it, item)) {
      uint64_t allowed = rights_of(it, item);
      for (; is_rule_of(it, i + 1, item->text); i++) allowed |= rights_of(it, &it->items[i + 1]);
      error = add_path_rule(ruleset, item->text, allowed & files, item->is_implied);
    }
  }
  return error;
}

int linux_restrict(const linux_sandbox *it, int abi) {
  if (abi < 1) return 0;
  struct {
    uint64_t files, ports, scopes;
  } set = {.files = abi < 2 ? REFER - 1 : abi < 3 ? TRUNCATE - 1 : abi < 5 ? DEVICES - 1 : 2 * DEVICES - 1};
  // Without any --allow-listen, the filter refuses `listen`, and `bind` need not be restricted: clients may choose
  // their port.
  if (abi >= 4 && !it->all[LINUX_ALLOW_CONNECT]) set.ports |= CONNECT;
  if (abi >= 4 && it->some[LINUX_ALLOW_LISTEN] && !it->all[LINUX_ALLOW_LISTEN]) set.ports |= BIND;
  if (abi >= 6) set.scopes = SIGNALS | (it->all[LINUX_ALLOW_CONNECT] ? 0 : ABSTRACT_SOCKETS);
  int ruleset = (int)syscall(CREATE_RULESET, &set, abi < 4 ? 8 : abi < 6 ? 16 : 24, 0);
  if (ruleset < 0) return errno;
  int error = add_rules(it, ruleset, set.files, set.ports);
  if (!error && syscall(RESTRICT_SELF, ruleset, 0)) error = errno;
  syscall(SYS_close, ruleset);
  return error;
}
