"""Formats a comparison of compare.py as a table."""

HEADINGS = [("", "workload"), ("", "floor"), ("", "rowgrad"), ("PyTorch", "as installed"),
            ("PyTorch", "best"), ("best /", "rowgrad"), ("", "target"), ("rowgrad /", "floor"),
            ("peak MiB", "rowgrad"), ("peak MiB", "PyTorch")]


def time_text(microseconds):
    for limit, unit, scale in ((1e3, "µs", 1), (1e6, "ms", 1e3), (float("inf"), "s", 1e6)):
        if microseconds < limit:
            number = microseconds / scale
            return f"{number:.{0 if number >= 100 else 1 if number >= 10 else 2}f} {unit}"


def headings(others):
    return HEADINGS[:5] + [("PyTorch", name) for name in others] + HEADINGS[5:]


def cells(row, others):
    ours, best = row["rowgrad"], row.get("torch_best")
    floor = ours["floor"]["floor_us"]
    mark = "*" if best and "note" in best else ""
    torch = ["–"] * 4 if not best else [
        time_text(row["torch_installed"]["median_us"]), time_text(best["median_us"]),
        f"{row['ratio']:.2f}", f"{best['peak_bytes'] / 2**20:.0f}"]
    more = [time_text(row[name]["median_us"]) for name in others]
    return [row["workload"]["name"] + mark, time_text(floor), time_text(ours["median_us"]),
            *torch[:2], *more, torch[2], str(row["workload"].get("target", "–")),
            f"{ours['median_us'] / floor:.2f}", f"{ours['peak_bytes'] / 2**20:.0f}", torch[3]]


def aligned(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.rjust(width) if column else cell.ljust(width)
                      for column, (cell, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines]


def footnotes(comparison):
    rows = comparison["rows"]
    floor = rows[-1]["rowgrad"]["floor"]
    rounds = "1 round" if comparison["rounds"] == 1 else f"{comparison['rounds']} rounds"
    yield (f"Medians of steps and of {rounds}; {comparison['cpu']}; memory "
           f"{floor['bytes_per_second'] / 1e9:.1f} GB/s, matrix products "
           f"{floor['operations_per_second'] / 1e9:.0f} GFLOP/s")
    yield f"rowgrad               {rows[-1]['rowgrad']['blas']}"
    if not comparison["torch_blas"]:
        return
    yield f"PyTorch as installed  {comparison['torch_blas']['torch_installed']}"
    same = comparison["torch_blas"]["torch_best"] == comparison["torch_blas"]["torch_installed"]
    yield ("PyTorch best          "
           + ("as installed, measured once" if same else comparison["torch_blas"]["torch_best"]))
    ours, theirs = (rows[-1][key]["start_bytes"] / 2**20 for key in ("rowgrad", "torch_best"))
    yield (f"The peak memory includes {ours:.0f} MiB (rowgrad) and {theirs:.0f} MiB (PyTorch) "
           "allocated before a workload begins.")
    for row in rows:
        if "note" in row["torch_best"]:
            yield f"* {row['workload']['name']}: PyTorch: {row['torch_best']['note']}"


def table(comparison):
    others = comparison["others"]
    above, below = ([heading[i] for heading in headings(others)] for i in (0, 1))
    lines = aligned([above, below, *(cells(row, others) for row in comparison["rows"])])
    return "\n".join([*lines, "", *footnotes(comparison)])
