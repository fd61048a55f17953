"""Options that the scripts of this folder share with bench_workloads, and what they may be."""

import argparse
import math
import os
import pathlib

from workload_list import SWEEPS, listed_workloads, selected, usable_cores


def whole_number(least):
    def parsed(text):
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) >= least):
            raise argparse.ArgumentTypeError(
                f"got {text}, expected a whole number from {least} on")
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
    """What rowgrad would use, and OpenMP."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(max(1, int(wanted)), usable_cores()) if wanted.isdecimal() else usable_cores()


def add_options(parser):
    parser.add_argument("--workload", action="append", default=[], metavar="NAME",
                        help="only this one, or all that begin so (W1b); can be given again")
    parser.add_argument("--sweep", choices=SWEEPS,
                        help="instead of the workloads: how cost grows with this")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--repeats", type=whole_number(1), metavar="N",
                      help="steps that count; if not given, as --seconds says")
    pace.add_argument("--seconds", type=seconds, default=2.0, metavar="S",
                      help="to go on with the steps that count, of which there are at least three")
    parser.add_argument("--warm-up", type=whole_number(0), default=3, metavar="N",
                        help="steps before those that count")
    parser.add_argument("--threads", type=whole_number(1), metavar="N",
                        default=default_threads())


def chosen_workloads(parser, options):
    """The workloads that the options choose; ends the program for an unknown name."""
    if options.threads > usable_cores():
        parser.error(f"--threads {options.threads}: expected at most {usable_cores()}, "
                     "the cores that this process may use")
    try:
        return selected(listed_workloads(options.sweep, options.threads), options.workload)
    except ValueError as error:
        parser.error(str(error))


def write_file(path, text):
    """Writes a new file and renames it, so that there is never half a file."""
    beside = pathlib.Path(f"{path}.{os.getpid()}.new")
    try:
        beside.write_text(text)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
