"""Computes how many processes serve: Python runs one thread at a time in a process, so each core needs one."""

import os

MOST = 8
MEMORY_EACH = 96 * 1024 * 1024
CGROUP = "/sys/fs/cgroup"


def processes(cgroup=CGROUP, affinity=None):
    """Return the number for the CPU time and the memory that the container may use."""
    available = len(os.sched_getaffinity(0)) if affinity is None else affinity
    cores = min(_quota(cgroup) or available, available, MOST)
    memory = memory_limit(cgroup)
    if memory:
        cores = min(cores, memory // MEMORY_EACH)
    return max(1, -int(-cores // 1))


def _quota(cgroup):
    """Return the limit in cores, or None without one: cgroup version 2, then version 1."""
    limit = _read(cgroup, "cpu.max").split()
    if not limit:
        limit = [_read(cgroup, "cpu/cpu.cfs_quota_us").strip(), _read(cgroup, "cpu/cpu.cfs_period_us").strip()]
    try:
        quota, period = map(int, limit)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def memory_limit(cgroup=CGROUP):
    """Return the container's limit in bytes, or None without one."""
    text = _read(cgroup, "memory.max") or _read(cgroup, "memory/memory.limit_in_bytes")
    return int(text) if text.strip().isdecimal() else None


def _read(cgroup, name):
    try:
        with open(f"{cgroup}/{name}", encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
