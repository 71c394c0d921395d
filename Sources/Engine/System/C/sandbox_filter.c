// The restrictions that Landlock cannot enforce, as a filter of system calls. A refused call fails with EACCES; a
// call that is newer than this file fails as if it did not exist.
#define _GNU_SOURCE
#include "sandbox_private.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#else
enum { ARCHITECTURE = 0 };
#endif

// Calls that Debian 12's headers do not have yet. `file_setattr` is the last call that this file knows.
enum {
  FCHMODAT2 = 452,
  STATMOUNT = 457,
  LISTMOUNT = 458,
  SETXATTRAT = 463,
  GETXATTRAT = 464,
  LISTXATTRAT = 465,
  REMOVEXATTRAT = 466,
  OPEN_TREE_ATTR = 467,
  FILE_SETATTR = 469
};
enum { TIOCSTI_ = 0x5412, TIOCLINUX_ = 0x541c, TIOCSETD_ = 0x5423, FASTOPEN = 0x20000000 };
// The calls of file systems through `ioctl`, by their types. Many of them change a file or a directory (attributes,
// snapshots, keys) by a descriptor that is open only for reading. The calls below only read, or copy to a writable
// file.
enum { OF_FILE_SYSTEM_F = 'f', OF_FILE_SYSTEM_V = 'v', OF_FILE_SYSTEM_X = 'X', OF_FILE_SYSTEM_B = 0x94 };
enum {
  GETFLAGS = 0x80086601,
  GETVERSION = 0x80087601,
  FSGETXATTR = 0x801c581f,
  FIEMAP_ = 0xc020660b,
  CLONE = 0x40049409,
  CLONE_RANGE = 0x4020940d,
  DEDUPE_RANGE = 0xc0189436
};
// The refused flags of clone: all namespaces except CLONE_NEWTIME, which only unshare accepts; and CLONE_PARENT, which
// makes a child of the process outside.
enum {
  NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
               CLONE_NEWNET | CLONE_PARENT
};

// The filter begins with a table that has a bit for each system call. The bit is set if the filter has a rule for the
// call. A call whose bit is not set is allowed at once, after a few instructions. Installing a filter takes time for
// each of its instructions: a filter with a binary search through these numbers takes twice as long to install.
enum { LAST_CALL = FILE_SETATTR, WORDS = LAST_CALL / 32 + 1 };
typedef struct {
  struct sock_filter code[512];
  unsigned short count, start, settled;
  unsigned refused[WORDS];  // with EACCES, unless there is a rule
} filter;

// Targets of jumps: results that rules share. `settle` replaces them by distances. Distances
// within a rule are smaller.
enum { ALLOWED = 253, REFUSED, UNKNOWN, FAR = 128 };

static void put(filter *f, unsigned code, unsigned k, unsigned yes, unsigned no) {
  f->code[f->count++] = (struct sock_filter){(unsigned short)code, (unsigned char)yes, (unsigned char)no, k};
}
static void end_with(filter *f, unsigned result) { put(f, BPF_RET | BPF_K, result, 0, 0); }
static void allow(filter *f) { end_with(f, SECCOMP_RET_ALLOW); }
static void refuse(filter *f, int error) { end_with(f, SECCOMP_RET_ERRNO | (unsigned)error); }

// Loads the lower or the upper half of an argument. The kernel uses only the lower half of each argument that is
// checked here, except of pointers.
static void load(filter *f, int argument, int upper) {
  unsigned at = offsetof(struct seccomp_data, args) + 8 * (unsigned)argument;
  put(f, BPF_LD | BPF_W | BPF_ABS, at + (upper == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) ? 4 : 0), 0, 0);
}

// Adds the shared results after the rules, and completes the jumps to them. The last rule continues with the first of
// these results.
static void settle(filter *f) {
  unsigned first = f->count;
  refuse(f, EACCES);
  allow(f);
  refuse(f, ENOSYS);
  for (unsigned i = f->settled; i < first; i++) {
    const unsigned distances[] = {first + 1 - i - 1, first - i - 1, first + 2 - i - 1};
    struct sock_filter *one = &f->code[i];
    if (BPF_CLASS(one->code) != BPF_JMP) continue;
    if (one->jt >= ALLOWED) one->jt = (unsigned char)distances[one->jt - ALLOWED];
    if (one->jf >= ALLOWED) one->jf = (unsigned char)distances[one->jf - ALLOWED];
  }
  f->settled = f->count;
}

static void mark(filter *f, int call) { f->refused[call / 32] |= 1U << call % 32; }

// Begins the rule for a call. Call `end` after it. Each path through the rule must end with a result.
static void begin(filter *f, int call) {
  if (f->count - f->settled > FAR) {
    // A conditional jump can skip at most 255 instructions.
    put(f, BPF_JMP | BPF_JA, 3, 0, 0);
    settle(f);
  }
  mark(f, call);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 0);
  f->start = f->count;
}
static void end(filter *f) { f->code[f->start - 1].jf = (unsigned char)(f->count - f->start); }

static void never(filter *f, int call) { mark(f, call); }

static void is_unknown(filter *f, int call) {
  mark(f, call);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, UNKNOWN, 0);
}

// Refuses a call if certain bits of an argument have a value. With `otherwise`, refuses the call if these bits have
// another value.
static void if_bits(filter *f, int call, int argument, unsigned mask, unsigned value, int otherwise) {
  begin(f, call);
  load(f, argument, 0);
  if (mask != ~0u) put(f, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, value, otherwise ? ALLOWED : REFUSED, otherwise ? REFUSED : ALLOWED);
  end(f);
}
static void if_any(filter *f, int call, int argument, unsigned mask) { if_bits(f, call, argument, mask, 0, 1); }
static void only(filter *f, int call, int argument, unsigned value) { if_bits(f, call, argument, ~0u, value, 1); }

// Refuses a call if an argument has one of some values. Call it between rules, not within one.
static void none_of(filter *f, int call, int argument, const unsigned *values, unsigned count) {
  begin(f, call);
  load(f, argument, 0);
  for (unsigned i = 0; i < count; i++)
    put(f, BPF_JMP | BPF_JEQ | BPF_K, values[i], REFUSED, i == count - 1 ? ALLOWED : 0);
  end(f);
}

// In the rule of `socket`: allows sockets of a family and a type, with this protocol or with 0, the default protocol.
static void allow_socket(filter *f, int family, int type, int protocol) {
  load(f, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)family, 0, 6);
  load(f, 1, 0);
  put(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)type, 0, 3);
  load(f, 2, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, ALLOWED, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)protocol, ALLOWED, 0);
}

// In the rule of `socket` or `socketpair`: allows Unix sockets with protocol 0. Allows datagram sockets only if
// `datagrams` is not 0.
static void allow_local(filter *f, int datagrams) {
  unsigned more = datagrams ? 1 : 0;
  load(f, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 6 + more);
  load(f, 2, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4 + more);
  load(f, 1, 0);
  put(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, ALLOWED, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, ALLOWED, 0);
  if (more) put(f, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, ALLOWED, 0);
}

static void add_families(filter *f, const linux_sandbox *it) {
  const uint8_t *all = it->all, *some = it->some;
  begin(f, SYS_socket);
  for (int i = 0; i < 2; i++) {
    int family = i ? AF_INET6 : AF_INET;
    allow_socket(f, family, SOCK_STREAM, IPPROTO_TCP);
    if (all[LINUX_ALLOW_CONNECT]) allow_socket(f, family, SOCK_DGRAM, IPPROTO_UDP);
  }
  // If only some TCP ports may be connected to, Unix sockets are refused: a filter cannot refuse `connect` to a Unix
  // socket and allow it to a TCP socket.
  int has_local = all[LINUX_ALLOW_CONNECT] || (all[LINUX_ALLOW_LISTEN] && !some[LINUX_ALLOW_CONNECT]);
  if (has_local) allow_local(f, all[LINUX_ALLOW_CONNECT]);
  // Through a netlink socket, the C library asks whether the machine has IPv4 and IPv6 addresses.
  if (some[LINUX_ALLOW_CONNECT]) allow_socket(f, AF_NETLINK, SOCK_RAW, 0);
  refuse(f, EACCES);
  end(f);
}

// Landlock restricts TCP ports, but neither MPTCP nor TCP Fast Open, nor paths of Unix sockets.
static void add_sockets(filter *f, const linux_sandbox *it) {
  const uint8_t *all = it->all, *some = it->some;
  if (some[LINUX_ALLOW_CONNECT] || some[LINUX_ALLOW_LISTEN]) add_families(f, it);
  else never(f, SYS_socket);
  // A datagram socket that socketpair makes can send to any address, and SOCK_RAW is another name for SOCK_DGRAM there.
  begin(f, SYS_socketpair);
  allow_local(f, all[LINUX_ALLOW_CONNECT]);
  refuse(f, EACCES);
  end(f);
  if (!some[LINUX_ALLOW_CONNECT]) never(f, SYS_connect);
  if (!some[LINUX_ALLOW_LISTEN]) never(f, SYS_listen);
  if (all[LINUX_ALLOW_CONNECT] || !(some[LINUX_ALLOW_CONNECT] || some[LINUX_ALLOW_LISTEN])) return;
  // TCP_ULP puts another protocol on top of TCP. That protocol may connect by itself, as SMC does.
  begin(f, SYS_setsockopt);
  load(f, 1, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, ALLOWED);
  load(f, 2, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, TCP_ULP, REFUSED, ALLOWED);
  end(f);
  if_any(f, SYS_sendto, 3, FASTOPEN);
  if_any(f, SYS_sendmsg, 2, FASTOPEN);
  if_any(f, SYS_sendmmsg, 3, FASTOPEN);
}

// Modes, owners, times and attributes, which Landlock does not restrict. Calls by descriptor are allowed if any file
// may be written; calls by path only if every file may.
static void add_attributes(filter *f, const linux_sandbox *it) {
  static const short paths[] = {
      SYS_fchmodat, SYS_fchownat, SYS_setxattr,  SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr,
      FCHMODAT2,    SETXATTRAT,   REMOVEXATTRAT, FILE_SETATTR,
#ifdef SYS_chmod
      SYS_chmod,    SYS_chown,    SYS_lchown,    SYS_utime,     SYS_utimes,      SYS_futimesat,
#endif
  };
  static const short descriptors[] = {SYS_fchmod, SYS_fchown, SYS_fsetxattr, SYS_fremovexattr};
  if (it->all[LINUX_ALLOW_WRITE]) return;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) never(f, paths[i]);
  for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors && !it->some[LINUX_ALLOW_WRITE]; i++)
    never(f, descriptors[i]);
  if (!it->some[LINUX_ALLOW_WRITE]) return never(f, SYS_utimensat);
  // Without a path, the times are those of the descriptor's file.
  begin(f, SYS_utimensat);
  load(f, 1, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, REFUSED);
  load(f, 1, 1);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, ALLOWED, REFUSED);
  end(f);
}

// Before its ABI 3, Landlock allows truncating a file that may only be read.
static void add_cutting(filter *f, const linux_sandbox *it) {
  never(f, SYS_truncate);
  if (it->some[LINUX_ALLOW_RUN] || it->some[LINUX_ALLOW_MODULES]) is_unknown(f, SYS_openat2);
#ifdef SYS_open
  if_bits(f, SYS_open, 1, O_TRUNC | O_ACCMODE, O_TRUNC, 0);
#endif
  if_bits(f, SYS_openat, 2, O_TRUNC | O_ACCMODE, O_TRUNC, 0);
}

// Other processes: Landlock refuses to trace them, and from ABI 6 on to signal them.
static void add_processes(filter *f, const linux_sandbox *it, int abi) {
  static const short calls[] = {SYS_ptrace,
                                SYS_process_vm_readv,
                                SYS_process_vm_writev,
                                SYS_kcmp,
                                SYS_move_pages,
                                SYS_migrate_pages,
                                SYS_ioprio_set,
                                SYS_perf_event_open,
                                438 /* pidfd_getfd */,
                                424 /* pidfd_send_signal */,
                                440 /* process_madvise */,
                                448 /* process_mrelease */};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) never(f, calls[i]);
  // These calls are allowed if their argument is 0, which stands for this process.
  static const short others[] = {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
                                 SYS_sched_setaffinity};
  enum { OTHERS = sizeof others / sizeof *others };
  for (unsigned i = 0; i < OTHERS; i++) {
    mark(f, others[i]);
    put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)others[i], OTHERS - 1 - i, i == OTHERS - 1 ? 2 : 0);
  }
  load(f, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, ALLOWED, REFUSED);
  // Allows only PRIO_PROCESS, which is 0, with process 0, which is this process: PRIO_USER also includes the user's
  // other processes.
  begin(f, SYS_setpriority);
  load(f, 0, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, REFUSED);
  load(f, 1, 0);
  put(f, BPF_JMP | BPF_JEQ | BPF_K, 0, ALLOWED, REFUSED);
  end(f);
  if_any(f, SYS_clone, 0, NAMESPACES);
  // The flags of clone3 are in memory, which a filter cannot read. If the call does not exist, the C library uses
  // `clone`.
  is_unknown(f, SYS_clone3);
  // A lease makes other processes wait when they open the file; F_SETOWN sends signals.
  static const unsigned controls[] = {F_SETLEASE, F_SETOWN, F_SETOWN_EX};
  int holds_signals = abi < 6 && !it->some[LINUX_ALLOW_RUN];
  none_of(f, SYS_fcntl, 1, controls, holds_signals ? 3 : 1);
  if (!holds_signals) return;
  only(f, SYS_kill, 0, (unsigned)getpid());
  only(f, SYS_tgkill, 0, (unsigned)getpid());
  never(f, SYS_tkill);
  only(f, SYS_rt_sigqueueinfo, 0, (unsigned)getpid());
  only(f, SYS_rt_tgsigqueueinfo, 0, (unsigned)getpid());
}

// Extended attributes of files are contents too, and Landlock does not restrict reading them.
static void add_reading(filter *f, const linux_sandbox *it) {
  static const short calls[] = {SYS_getxattr, SYS_lgetxattr, SYS_listxattr, SYS_llistxattr, GETXATTRAT, LISTXATTRAT};
  enum { CALLS = sizeof calls / sizeof *calls };
  if (it->all[LINUX_ALLOW_READ]) return;
  for (unsigned i = 0; i < CALLS; i++) {
    mark(f, calls[i]);
    put(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], CALLS - 1 - i, i == CALLS - 1 ? 1 : 0);
  }
  // With this error `ls` and other programs continue.
  refuse(f, EOPNOTSUPP);
}

static void add_controls(filter *f, const linux_sandbox *it) {
  // Requests that insert characters into the terminal's input, control parts of the kernel, or choose the receivers of
  // signals.
  static const unsigned refused[] = {TIOCSTI_, TIOCLINUX_, TIOCSETD_, FIOSETOWN, SIOCSPGRP};
  static const unsigned reading[] = {GETFLAGS, GETVERSION, FSGETXATTR, FIEMAP_, CLONE, CLONE_RANGE, DEDUPE_RANGE};
  static const unsigned types[] = {OF_FILE_SYSTEM_F, OF_FILE_SYSTEM_V, OF_FILE_SYSTEM_X, OF_FILE_SYSTEM_B};
  enum { NEVER = sizeof refused / sizeof *refused, READING = sizeof reading / sizeof *reading };
  enum { TYPES = sizeof types / sizeof *types };
  int checks_files = !it->all[LINUX_ALLOW_WRITE];
  begin(f, SYS_ioctl);
  load(f, 1, 0);
  for (unsigned i = 0; i < NEVER; i++)
    put(f, BPF_JMP | BPF_JEQ | BPF_K, refused[i], REFUSED, i == NEVER - 1 && !checks_files ? ALLOWED : 0);
  if (checks_files) {
    for (unsigned i = 0; i < READING; i++) put(f, BPF_JMP | BPF_JEQ | BPF_K, reading[i], ALLOWED, 0);
    put(f, BPF_ALU | BPF_AND | BPF_K, 0xff00, 0, 0);
    for (unsigned i = 0; i < TYPES; i++)
      put(f, BPF_JMP | BPF_JEQ | BPF_K, types[i] << 8, REFUSED, i == TYPES - 1 ? ALLOWED : 0);
  }
  end(f);
}

// Calls that change the machine, or by which a program could evade Landlock.
static const short of_machine[] = {
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    431 /* fsconfig */,
    432 /* fsmount */,
    433 /* fspick */,
    442 /* mount_setattr */,
    OPEN_TREE_ATTR,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    443 /* quotactl_fd */,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    SYS_syslog,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_personality,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

static void add_machine(filter *f, const linux_sandbox *it) {
  for (size_t i = 0; i < sizeof of_machine / sizeof *of_machine; i++) never(f, of_machine[i]);
  // Watching a directory reports the names of its files, and these two calls list the mounts. Landlock restricts
  // neither.
  if (!it->all[LINUX_ALLOW_READ]) never(f, SYS_inotify_add_watch), never(f, STATMOUNT), never(f, LISTMOUNT);
  // A program without a file has no path that could be refused.
  if (!it->all[LINUX_ALLOW_RUN]) never(f, SYS_memfd_create), never(f, SYS_execveat);
  if (!it->some[LINUX_ALLOW_RUN]) never(f, SYS_execve);
}

// Loads the word that contains the call's bit into X. Equal adjacent words, such as those for unused numbers, share the
// instructions.
static void load_word(filter *f, const unsigned refused[WORDS]) {
  unsigned groups = 0;
  for (unsigned i = 0; i < WORDS; i++) groups += i == WORDS - 1 || refused[i] != refused[i + 1];
  for (unsigned i = 0; i < WORDS; i++) {
    if (i < WORDS - 1 && refused[i] == refused[i + 1]) continue;
    put(f, BPF_LDX | BPF_IMM, refused[i], 0, 0);
    if (--groups) put(f, BPF_JMP | BPF_JGE | BPF_K, (i + 1) * 32, 0, groups * 2 - 1);
  }
}

int linux_install_filter(const linux_sandbox *it, int abi) {
  if (!ARCHITECTURE) return ENOSYS;
  // The long arrays are not cleared: most of their pages are never touched.
  filter rules, f;
  rules.count = rules.settled = f.count = 0;
  memset(rules.refused, 0, sizeof rules.refused);
  add_sockets(&rules, it);
  add_attributes(&rules, it);
  add_reading(&rules, it);
  if (abi < 3 && !it->all[LINUX_ALLOW_WRITE]) add_cutting(&rules, it);
  add_processes(&rules, it, abi);
  add_machine(&rules, it);
  add_controls(&rules, it);
  settle(&rules);
  // When a filter is installed, the kernel emulates it for each call number, to find the calls that are always allowed.
  // It would find none with this filter, and it stops emulating at this instruction. Costs if removed: 10 µs of a start
  // in a sandbox.
  put(&f, BPF_MISC | BPF_TAX, 0, 0, 0);
  put(&f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
  put(&f, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  refuse(&f, ENOSYS);
  put(&f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  // This also refuses the calls of x32, whose numbers are larger.
  put(&f, BPF_JMP | BPF_JGT | BPF_K, LAST_CALL, 0, 1);
  refuse(&f, ENOSYS);
  load_word(&f, rules.refused);
  put(&f, BPF_ALU | BPF_AND | BPF_K, 31, 0, 0);
  put(&f, BPF_ST, 0, 0, 0);
  put(&f, BPF_MISC | BPF_TXA, 0, 0, 0);
  put(&f, BPF_LDX | BPF_MEM, 0, 0, 0);
  put(&f, BPF_ALU | BPF_RSH | BPF_X, 0, 0, 0);
  put(&f, BPF_JMP | BPF_JSET | BPF_K, 1, 1, 0);
  allow(&f);
  put(&f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  for (int i = 0; i < rules.count; i++) f.code[f.count++] = rules.code[i];
  struct sock_fprog program = {f.count, f.code};
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  return result < 0 ? errno : result > 0 ? EBUSY : 0;
}
