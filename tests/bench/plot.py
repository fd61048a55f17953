#!/usr/bin/python3
"""Plots a comparison of compare.py: plot.py comparison.json comparison.png"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")  # draws into files, without a screen
from matplotlib import pyplot, ticker  # noqa: E402

from workload_list import tokens  # noqa: E402

SERIES = {
    "floor": ("floor", "0.6"),
    "rowgrad": ("rowgrad", "tab:blue"),
    "torch_installed": ("PyTorch as installed", "tab:red"),
    "torch_best": ("PyTorch best", "tab:orange"),
}
ABSCISSAS = {
    "vocabulary": "rows in the table",
    "tokens": "tokens per step",
    "width": "elements per row",
    "classes": "classes of a sampled softmax",
    "threads": "threads",
}


def microseconds(row, series):
    if series == "floor":
        return row["rowgrad"]["floor"]["floor_us"]
    return row[series]["median_us"]


def place(row, sweep):
    if sweep == "tokens":
        return tokens(row["workload"])
    return row["workload"]["vocabulary" if sweep == "classes" else sweep]


def shown_series(comparison):
    blas = comparison["torch_blas"]
    if not blas:
        return {key: SERIES[key] for key in ("floor", "rowgrad")}
    same = blas["torch_installed"] == blas["torch_best"]
    return {key: (label if not same else label.replace(" best", ""), colour)
            for key, (label, colour) in SERIES.items() if not (same and key == "torch_installed")}


def tick_text(microseconds_there, _):
    for limit, unit, scale in ((1e3, "µs", 1), (1e6, "ms", 1e3), (float("inf"), "s", 1e6)):
        if microseconds_there < limit:
            return f"{microseconds_there / scale:g} {unit}"


def scale_times(axes):
    """Makes the axis logarithmic, with enough labels even if it spans less than a factor of ten."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    steps = (1, 2, 5) if high < 1000 * low else (1,)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=steps, numticks=20))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(tick_text))
    axes.minorticks_off()
    axes.grid(axis="y", alpha=0.4)


def draw_bars(comparison):
    rows, series = comparison["rows"], shown_series(comparison)
    figure, axes = pyplot.subplots(figsize=(11, 5))
    width = 0.8 / len(series)
    for i, (key, (label, colour)) in enumerate(series.items()):
        places = [j + (i - (len(series) - 1) / 2) * width for j in range(len(rows))]
        axes.bar(places, [microseconds(row, key) for row in rows], width, label=label,
                 color=colour)
    scale_times(axes)
    axes.set_xticks(range(len(rows)), [row["workload"]["name"] for row in rows], rotation=30,
                    ha="right")
    return figure, [axes]


def draw_lines(comparison):
    """Draws one panel per model: the sweep over threads has two models, the others one."""
    sweep = comparison["sweep"]
    models = list(dict.fromkeys(row["workload"]["model"] for row in comparison["rows"]))
    figure, panels = pyplot.subplots(1, len(models), figsize=(1 + 6 * len(models), 5),
                                     squeeze=False)
    for axes, model in zip(panels[0], models):
        rows = [row for row in comparison["rows"] if row["workload"]["model"] == model]
        places = [place(row, sweep) for row in rows]
        for key, (label, colour) in shown_series(comparison).items():
            axes.plot(places, [microseconds(row, key) for row in rows], "o-", label=label,
                      color=colour)
        axes.set_xscale("log", base=2 if sweep == "threads" else 10)
        axes.set_xticks(places, [f"{number:,}" for number in places], rotation=30)
        scale_times(axes)
        axes.set_xlabel(ABSCISSAS[sweep])
        axes.set_title(f"{model}: {fixed_sizes(rows[0]['workload'], sweep)}", fontsize=10)
    return figure, list(panels[0])


def fixed_sizes(workload, sweep):
    sizes = {"vocabulary": f"V {workload['vocabulary']:,}", "width": f"d {workload['width']}",
             "tokens": f"{tokens(workload):,} tokens", "threads": f"{workload['threads']} threads"}
    return ", ".join(text for size, text in sizes.items()
                     if size != ("vocabulary" if sweep == "classes" else sweep))


def draw(comparison, path):
    figure, panels = draw_lines(comparison) if comparison["sweep"] else draw_bars(comparison)
    figure.suptitle(f"Median time of a training step, {comparison['cpu']}", fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncol=len(SERIES))
    figure.tight_layout(rect=(0, 0.06, 1, 1))  # leaves room for the legend
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"got {len(sys.argv) - 1} arguments, expected {__doc__.split(': ')[1]}")
    draw(json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2])
