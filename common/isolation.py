# SPDX-License-Identifier: Apache-2.0
"""How a process that reads strangers' bytes gives up files, the network and other processes. Linux.

``hide`` closes this process's memory and environment to the user's other processes. A child calls ``isolate`` before it
reads strangers' bytes: Landlock lets it open only its libraries' files and named ones, and seccomp refuses the system
calls that a decoder never needs (EPERM). Files that it was handed open stay usable. Numbers: the kernel's
asm/unistd_64.h and asm-generic/unistd.h; structures: linux/landlock.h, seccomp.h, filter.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38  # linux/prctl.h
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables; AUDIT_ARCH of linux/audit.h
# (x86-64, aarch64); None: the architecture has no such call.
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT, SECCOMP = (444, 444), (445, 445), (446, 446), (317, 277)
CLONE, CLONE3, PRLIMIT, TGKILL, OPENAT2 = (56, 220), (435, 435), (302, 261), (234, 131), (437, 437)
OPEN, OPENAT, FCNTL, IOCTL = (2, None), (257, 56), (72, 25), (16, 29)

# Groups of calls, by what they would reach.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes: their memory, signals, files, limits and priority
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140), "ioprio_set": (251, 30), "migrate_pages": (256, 238),
    "move_pages": (279, 239), "sched_setaffinity": (203, 122), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # other programs
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "unshare": (272, 97),
    "setns": (308, 268), "personality": (135, 92),
    # the network
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    # file systems, and what Landlock leaves open of files
    "mount": (165, 40), "umount2": (166, 39), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "pivot_root": (155, 41), "chroot": (161, 51), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "inotify_init": (253, None), "inotify_init1": (294, 26), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "lchown": (94, None),
    "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    # parts of the kernel with many faults of their own, or for administrators
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None),
}  # fmt: skip
# Denied too unless a folder may be written, so that the child can change no file on a kernel without Landlock either.
CHANGES: dict[str, tuple[int | None, int | None]] = {
    "creat": (85, None), "truncate": (76, 45), "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "link": (86, None), "linkat": (265, 37), "symlink": (88, None),
    "symlinkat": (266, 36), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "mknod": (133, None),
    "mknodat": (259, 33),
}  # fmt: skip
CLONE_THREAD = 0x10000
# By these a descriptor sends its owner's process a signal, any one, whenever bytes arrive (asm-generic/fcntl.h,
# sockios.h); the last two type into the terminal of whoever started the service (ioctls.h, console_ioctl.h).
F_SETOWN, F_SETSIG, F_SETOWN_EX = 8, 10, 15
FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX = 0x8901, 0x8902, 0x5412, 0x541C

# linux/landlock.h. Rights on files by the version of the interface that brought them.
WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: 1 << 15}
OF_FILES = WRITE_FILE | READ_FILE | TRUNCATE
MAKES = sum(1 << bit for bit in (4, 5, 7, 8, 12))  # remove a folder or file; make a folder, file or symbolic link
TCP = 1 | 2  # bind, connect: version 4
SCOPES = 1 | 2  # abstract sockets, signals: version 6
PATH_BENEATH = 1
# Beside the folders of Python and this module's own: the C libraries, fonts, time zone; what libraries ask of the
# machine's cores, and of the libraries in this process.
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/fonts", "/etc/localtime", "/dev/null", "/dev/urandom")
CORES = ("/sys/devices/system/cpu", "/sys/fs/cgroup", "/proc/cpuinfo", "/proc/self/maps")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _call(name: tuple[int | None, int | None], *arguments: int | bytes | None) -> int:
    number = name[MACHINES[platform.machine()][0]]
    words = [word if isinstance(word, bytes) else ctypes.c_long(word or 0) for word in arguments]
    result = int(_libc.syscall(ctypes.c_long(number or -1), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def hide() -> None:
    """Keep the user's other processes from this one's memory, environment and open files. exec undoes it."""
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def landlock_version() -> int:
    """The version of Landlock's interface; 0 if the kernel has none, or a container's profile forbids it."""
    try:
        return _call(LANDLOCK_CREATE, None, 0, 1)  # LANDLOCK_CREATE_RULESET_VERSION
    except (OSError, KeyError):
        return 0


def has_seccomp() -> bool:
    try:
        return not _call(SECCOMP, 2, 0, struct.pack("=I", 0x7FFF0000))  # SECCOMP_GET_ACTION_AVAIL, SECCOMP_RET_ALLOW
    except (OSError, KeyError):
        return False


def lacking() -> list[str]:
    """The protections that this machine's kernel lacks: ``landlock``, ``seccomp``."""
    found = {"landlock": landlock_version() > 0, "seccomp": has_seccomp()}
    return [name for name, there in found.items() if not there]


def isolate(readable: Iterable[str | Path] = (), writable: str | Path | None = None) -> None:
    """Isolates this thread and those that it starts, for good. Call it while the process has one thread.

    Besides the libraries, ``readable`` files and folders may be opened. Below the folder ``writable`` everything may be
    done except running programs. Protections that the kernel lacks are left out (``lacking``). Raises OSError.
    """
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if threads != 1:
        raise OSError(errno.EBUSY, f"{threads} threads; a process isolates itself while it has one")
    hide()
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if version := landlock_version():
        _restrict_files(version, readable, writable)
    if has_seccomp():
        program = _filter(os.getpid(), writable is not None)
        buffer = ctypes.create_string_buffer(program)
        pointer = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
        _call(SECCOMP, 1, 0, pointer)  # SECCOMP_SET_MODE_FILTER


def _restrict_files(version: int, readable: Iterable[str | Path], writable: str | Path | None) -> None:
    handled = sum(rights for since, rights in RIGHTS.items() if since <= version)
    ruleset = struct.pack("=QQQ", handled, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _call(LANDLOCK_CREATE, ruleset[:size], size, 0)
    try:
        python = (sys.prefix, sys.base_prefix, str(Path(__file__).parent))
        libraries = (path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path)
        for path in (*SYSTEM, *CORES, *python, *libraries, *readable):
            _allow(rules, path, READ_FILE | READ_DIR)
        if writable is not None:
            _allow(rules, writable, (READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKES) & handled)
        _call(LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str | Path, rights: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path needs no rule
    try:
        rights = rights if os.path.isdir(path) else rights & OF_FILES
        _call(LANDLOCK_ADD, rules, PATH_BENEATH, struct.pack("=Qi", rights, file), 0)
    finally:
        if not str(path).startswith("/proc/"):  # of a file there that nobody holds, the kernel makes another inode
            os.close(file)


def _filter(pid: int, writes: bool) -> bytes:
    """The program in classic BPF: each instruction is an operation, two jumps, and a number."""
    column, architecture = MACHINES[platform.machine()]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
    allow, end = 0x7FFF0000, 0x80000000  # linux/seccomp.h: SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS
    refuse, unknown = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS  # SECCOMP_RET_ERRNO
    lines = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, end), (load, 0, 0, 0)]
    if column == 0:  # x32 has numbers of its own for the same calls
        lines += [(at_least, 0, 1, 0x40000000), (give, 0, 0, refuse)]

    def answer(call: tuple[int | None, int | None], result: int) -> None:
        if (number := call[column]) is not None:
            lines.extend([(equal, 0, 1, number), (give, 0, 0, result)])

    def ask(call: tuple[int | None, int | None], argument: int, test: int, *values: int, yes: int, no: int) -> None:
        """By the low half of an argument: ``yes`` where the test holds for one of ``values``."""
        if (number := call[column]) is not None:
            tests = [line for value in values for line in ((test, 0, 1, value), (give, 0, 0, yes))]
            lines.extend(
                [(equal, 0, 2 + len(tests), number), (load, 0, 0, 16 + 8 * argument), *tests, (give, 0, 0, no)]
            )

    ask(CLONE, 0, any_bit, CLONE_THREAD, yes=allow, no=refuse)  # threads, no processes
    answer(CLONE3, unknown)  # its flags lie in memory; the C library then takes clone
    ask(PRLIMIT, 0, equal, 0, yes=allow, no=refuse)
    ask(TGKILL, 0, equal, pid, yes=allow, no=refuse)  # abort()
    ask(FCNTL, 1, equal, F_SETOWN, F_SETSIG, F_SETOWN_EX, yes=refuse, no=allow)
    ask(IOCTL, 1, equal, FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX, yes=refuse, no=allow)
    for call in DENIED.values():
        answer(call, refuse)
    if not writes:
        changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        ask(OPEN, 1, any_bit, changing, yes=refuse, no=allow)
        ask(OPENAT, 2, any_bit, changing, yes=refuse, no=allow)
        for call in CHANGES.values():
            answer(call, refuse)
    answer(OPENAT2, unknown)
    lines.append((give, 0, 0, allow))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
