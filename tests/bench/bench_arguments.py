"""Options that the scripts of this folder share with bench_workloads, and their validation."""

import argparse
import math
import os
import pathlib

from workload_list import SWEEPS, listed_workloads, selected, usable_cores


def whole_number(least):
    def parsed(text):
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) >= least):
            raise argparse.ArgumentTypeError(
                f"got {text}, expected a whole number >= {least}, of at most 12 digits")
        return int(text)
    return parsed


def seconds(text):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"got {text}, expected a number from 0 to 3600")
    return number


def default_threads():
    """Returns the number of threads that rowgrad and OpenMP use by default."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(max(1, int(wanted)), usable_cores()) if wanted.isdecimal() else usable_cores()


def add_options(parser):
    parser.add_argument("--workload", action="append", default=[], metavar="NAME",
                        help="measure this workload, or all whose names begin with NAME, such as W1b; repeatable")
    parser.add_argument("--sweep", choices=SWEEPS,
                        help="measure how the time depends on this size, instead of the workloads")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--repeats", type=whole_number(1), metavar="N",
                      help="number of measured steps (default: see --seconds)")
    pace.add_argument("--seconds", type=seconds, default=2.0, metavar="S",
                      help="time to measure, for at least three steps")
    parser.add_argument("--warm-up", type=whole_number(0), default=3, metavar="N",
                        help="number of steps before the measured steps")
    parser.add_argument("--threads", type=whole_number(1), metavar="N",
                        default=default_threads(), help="number of threads")


def chosen_workloads(parser, options):
    """Returns the workloads that the options choose. Ends the program if a name is unknown."""
    if options.threads > usable_cores():
        parser.error(f"--threads {options.threads}: expected at most {usable_cores()}, "
                     "the cores that this process may use")
    try:
        return selected(listed_workloads(options.sweep, options.threads), options.workload)
    except ValueError as error:
        parser.error(str(error))


def write_file(path, text):
    """Writes a new file and renames it, so that the file is never incomplete."""
    temporary = pathlib.Path(f"{path}.{os.getpid()}.new")
    try:
        temporary.write_text(text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
