#!/usr/bin/python3
"""Runs bench_workloads and torch_workloads.py alternately, and compares their medians."""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

import plot
from bench_arguments import add_options, chosen_workloads, whole_number, write_file
from comparison_table import table
from workload_list import tokens

TORCH = str(pathlib.Path(__file__).with_name("torch_workloads.py"))
BLAS_VARIABLES = ("OPENBLAS_CORETYPE", "LD_LIBRARY_PATH")


def output_of(command, environment):
    return subprocess.run(command, env=environment, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def result_of(command, environment):
    """Returns the only result in the JSON file that the command writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.json")
        output_of([*command, "--json", str(path)], environment)
        return json.loads(path.read_text())["results"][0]


def openblas_folder(program):
    """Returns the folder of the program's OpenBLAS. PyTorch can load libblas.so.3 from there."""
    for line in output_of(["ldd", program], os.environ).splitlines():
        if "openblas" in line and "=>" in line:
            return str(pathlib.Path(line.split()[2]).parent)
    return None


def torch_setups(program):
    """Returns the environments of PyTorch as installed and with its best settings.

    As installed, no variable chooses its BLAS. With its best settings, PyTorch uses rowgrad's
    OpenBLAS, which is built with OpenMP, as PyTorch is. If OpenBLAS does not know the CPU, PyTorch
    also uses the kernel that rowgrad chose. PyTorch and
    rowgrad inherit all other variables, such as GOMP_SPINCOUNT, from the caller.
    """
    plain = {name: value for name, value in os.environ.items() if name not in BLAS_VARIABLES}
    best = dict(plain)
    folder = openblas_folder(program)
    if folder:
        best["LD_LIBRARY_PATH"] = folder
    probe = result_of([program, "--workload", "W1", "--repeats", "1"], os.environ)
    if probe["kernel_reselected"]:
        best["OPENBLAS_CORETYPE"] = probe["kernel"]
    elif "OPENBLAS_CORETYPE" in os.environ:
        best["OPENBLAS_CORETYPE"] = os.environ["OPENBLAS_CORETYPE"]
    return {"torch_installed": plain, "torch_best": best}


def median_of(results):
    """Returns the result of all rounds: medians of the measured values, and the constant values."""
    merged = dict(results[0])
    for key in ("median_us", "forward_us", "backward_us", "update_us", "peak_bytes"):
        if key in merged:
            merged[key] = statistics.median(result[key] for result in results)
    merged["tokens_per_second"] = tokens(merged) / merged["median_us"] * 1e6
    if "floor" in merged:
        merged["floor"] = {key: statistics.median(result["floor"][key] for result in results)
                           for key in merged["floor"]}
    merged["medians_us"] = [result["median_us"] for result in results]
    return merged


def compared(workload, setups, options):
    """Measures one workload with all setups alternately, so that other load affects all of them."""
    pace = ["--warm-up", str(options.warm_up)]
    pace += ["--repeats", str(options.repeats)] if options.repeats else [
        "--seconds", str(options.seconds)]
    ours = ["--workload", workload.get("listed", workload["name"]),
            "--threads", str(workload["threads"]), *pace]
    theirs = ["--workload", workload["name"], "--threads", str(options.threads), *pace]
    theirs += ["--sweep", options.sweep] if options.sweep else []
    rounds = {name: [] for name in setups}
    for _ in range(options.rounds):
        for name, (command, environment) in setups.items():
            arguments = ours if name == "rowgrad" else theirs
            rounds[name].append(result_of([*command, *arguments], environment))
    row = {"workload": workload} | {name: median_of(results) for name, results in rounds.items()}
    if options.alone:
        return row
    row.setdefault("torch_best", row["torch_installed"])
    fastest = min(row[name]["median_us"] for name in row if name not in ("workload", "rowgrad"))
    return row | {"ratio": fastest / row["rowgrad"]["median_us"]}


def interpreter(text):
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME=COMMAND")
    return name, shlex.split(command)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add_options(parser)
    parser.add_argument("--rounds", type=whole_number(1), default=3, metavar="N",
                        help="number of times that each program measures each workload")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER",
                        help="folder for the table, the results as JSON and the plot")
    parser.add_argument("--alone", action="store_true", help="measure only rowgrad and its floor, not PyTorch")
    parser.add_argument("--torch", type=interpreter, action="append", default=[],
                        metavar="NAME=COMMAND",
                        help="also measure another Python with PyTorch; in a chroot, for example "
                             "\"trixie=chroot FOLDER python3\", with this project and /tmp mounted "
                             "there; repeatable")
    parser.add_argument("--program", required=True, metavar="FILE", help="path of bench_workloads")
    options = parser.parse_args()
    workloads = chosen_workloads(parser, options)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output {options.output}: {error.strerror}")
    return options, workloads


def report(rows, blas, options):
    comparison = {"cpu": cpu_name(), "rounds": options.rounds, "sweep": options.sweep,
                  "torch_blas": blas, "others": [name for name, _ in options.torch], "rows": rows}
    stem = f"growth-{options.sweep}" if options.sweep else "comparison"
    text = table(comparison)
    print(text)
    write_file(options.output / f"{stem}.txt", text + "\n")
    write_file(options.output / f"{stem}.json", json.dumps(comparison, indent=2) + "\n")
    plot.draw(comparison, options.output / f"{stem}.png")
    print(f"\nAlso in {options.output}: {stem}.txt, {stem}.json, {stem}.png")


def main():
    options, workloads = parsed_options()
    torch = {} if options.alone else torch_setups(options.program)
    blas = {name: output_of([TORCH, "--blas", "--threads", str(options.threads)], env).strip()
            for name, env in torch.items()}
    setups = {"rowgrad": ([options.program, "--floor"], os.environ),
              **{name: ([TORCH], environment) for name, environment in torch.items()}}
    if torch and blas["torch_best"] == blas["torch_installed"]:
        del setups["torch_best"]  # would be the same measurement
    for name, command in options.torch:
        setups[name] = ([*command, TORCH], torch["torch_best"] if torch else os.environ)

    rows, failed = [], []
    for count, workload in enumerate(workloads, 1):
        print(f"{count}/{len(workloads)}  {workload['name']}", file=sys.stderr)
        try:
            rows.append(compared(workload, setups, options))
        except subprocess.CalledProcessError:  # the program printed why; the others continue
            failed.append(workload["name"])
    if rows:
        report(rows, blas, options)
    if failed:
        sys.exit(f"compare: not measured because of the errors above: {', '.join(failed)}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"compare: {' '.join(error.cmd)} failed")
