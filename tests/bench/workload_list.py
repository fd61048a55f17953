"""Reads workloads.json, the workloads of the comparison of rowgrad and PyTorch."""

import json
import os
import pathlib

SWEEPS = ["vocabulary", "tokens", "width", "classes", "threads"]


def usable_cores():
    return len(os.sched_getaffinity(0))


def listed_workloads(sweep, threads):
    """Returns the workloads, or the points of a sweep. In the sweep over threads, "name" also has
    the number of threads, and "listed" is the name in workloads.json."""
    everything = json.loads(pathlib.Path(__file__).with_name("workloads.json").read_text())
    workloads = everything["sweeps"][sweep] if sweep else everything["workloads"]
    if sweep != "threads":
        return [workload | {"threads": threads} for workload in workloads]
    counts = sorted({threads} | {1 << i for i in range(threads.bit_length()) if 1 << i < threads})
    return [workload | {"name": f"{workload['name']}-threads-{count}", "threads": count,
                        "listed": workload["name"]}
            for workload in workloads for count in counts]


def selected(listed, names):
    """Returns the workloads with these names or name prefixes (W1b), in the order of the list."""
    known = {workload["name"] for workload in listed}
    wanted = set()
    for name in names:
        found = {name} if name in known else {one for one in known if one.startswith(name + "-")}
        if not found:
            raise ValueError(f"--workload {name}: expected one of "
                             + ", ".join(workload["name"] for workload in listed))
        wanted |= found
    return [workload for workload in listed if not names or workload["name"] in wanted]


def tokens(workload):
    return workload["batch"] * workload["context"]
