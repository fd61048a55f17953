#!/usr/bin/python3
"""Measures the training steps of bench_workloads in PyTorch (Debian: python3-torch)."""

import argparse
import json
import os
import pathlib
import sys

from bench_arguments import add_options, chosen_workloads, write_file
from workload_list import tokens


def in_own_process(work):
    """Runs work() in a child process, and returns its result with the peak memory of the process.

    The peak memory of a process never decreases, so each workload needs a process of its own. Only
    the child loads PyTorch, so all workloads begin in the same state.
    """
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read_end)
            with os.fdopen(write_end, "w") as pipe:
                json.dump(work(), pipe)
            status = 0
        except Exception as error:  # the parent reports that the child failed
            print(f"torch_workloads: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        message = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        raise RuntimeError(f"the process was killed by signal {os.WTERMSIG(status)}, perhaps for "
                           "lack of memory")
    if status != 0:
        raise RuntimeError("the process failed")
    return json.loads(message) | {"peak_bytes": usage.ru_maxrss * 1024}


def measure(workload, options):
    import torch_steps
    return torch_steps.measure(workload, options)


def describe_blas(threads):
    import torch_steps
    return torch_steps.describe_blas(threads)


def line(workload):
    threads = "1 thread " if workload["threads"] == 1 else f"{workload['threads']} threads"
    return (f"{workload['name']:20}{workload['model']:6}{workload['optimizer']:15} "
            f"V {workload['vocabulary']:<8}d {workload['width']:<5}B {workload['batch']:<4}"
            f"T {workload['context']:<4}{threads}")


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add_options(parser)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="file for all results")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--list", action="store_true", help="list the workloads without measuring")
    only.add_argument("--blas", action="store_true",
                      help="print the BLAS that PyTorch uses, without measuring")
    options = parser.parse_args()
    if options.json and (options.list or options.blas):
        parser.error("--json cannot be used with --list or --blas, which do not measure")
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"--json {options.json}: the folder {options.json.absolute().parent} does not exist")
    if options.json and options.json.is_dir():
        parser.error(f"--json {options.json}: is a folder, expected a file")
    return options, chosen_workloads(parser, options)


def main():
    options, workloads = parsed_options()
    if options.blas:
        print(in_own_process(lambda: {"blas": describe_blas(options.threads)})["blas"])
        return
    results = []
    for workload in workloads:
        print(line(workload), end="" if not options.list else "\n", flush=True)
        if options.list:
            continue
        try:
            result = workload | in_own_process(lambda: measure(workload, options))
        except RuntimeError as error:
            sys.exit(f"\ntorch_workloads: {workload['name']}: {error}")
        result["tokens_per_second"] = tokens(workload) / result["median_us"] * 1e6
        results.append(result)
        note = f"  {result['note']}" if "note" in result else ""
        print(f"{result['median_us']:12.1f} µs{result['tokens_per_second']:12.0f} tokens/s"
              f"{result['peak_bytes'] / 2**20:8.0f} MiB{note}", flush=True)
    if results:
        print(f"Computed with {results[-1]['blas']}")
    if options.json:
        write_file(options.json, json.dumps({"program": "pytorch", "results": results}, indent=2)
                   + "\n")


if __name__ == "__main__":
    main()
