#!/usr/bin/python3
"""Writes schedules.json: learning rates of torch.optim.lr_scheduler.

Needs Debian's python3-torch. Each case has a schedule with its options (with rowgrad's names and
defaults), the base rate of each group, and the rates of all groups at steps 0, 1, 2 ... "then" is the
schedule that follows, from step "at" on, or from the end of the first schedule.

Rates are read from the optimizer after scheduler.step(). PyTorch computes most rates from the rate
before, so they differ from the formula by accumulated rounding errors.
"""
import pathlib, warnings
import torch
from torch.optim import lr_scheduler

import lines

warnings.simplefilter("ignore")  # PyTorch warns that optimizer.step() is not called


def linear_warmup(optimizer, steps=5, start_factor=1 / 3, end_factor=1.0):
    return lr_scheduler.LinearLR(optimizer, start_factor, end_factor, steps)


def cosine(optimizer, steps, min_factor=0.0):
    rates = {group["lr"] for group in optimizer.param_groups}
    assert min_factor == 0 or len(rates) == 1  # PyTorch has one minimum rate for all groups
    return lr_scheduler.CosineAnnealingLR(optimizer, steps, min_factor * rates.pop())


def step_decay(optimizer, every, factor=0.1):
    return lr_scheduler.StepLR(optimizer, every, factor)


def one_cycle(optimizer, steps, warmup_fraction=0.3, start_divisor=25.0, final_divisor=1e4):
    return lr_scheduler.OneCycleLR(
        optimizer, [group["lr"] for group in optimizer.param_groups], total_steps=steps,
        pct_start=warmup_fraction, cycle_momentum=False, div_factor=start_divisor,
        final_div_factor=final_divisor)


def constant(optimizer):
    return lr_scheduler.ConstantLR(optimizer, factor=1.0)


def inverse_root(optimizer):
    return lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) ** -0.5)


def scheduler_of(optimizer, case):
    scheduler = globals()[case["schedule"]](optimizer, **case.get("options", {}))
    if "then" not in case:
        return scheduler
    at = case.get("at") or case["options"]["steps"]
    return lr_scheduler.SequentialLR(optimizer, [scheduler, scheduler_of(optimizer, case["then"])],
                                     [at])


def run(count, **case):
    base_rates = case.setdefault("base_rates", [0.1])
    optimizer = torch.optim.SGD(
        [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in base_rates], lr=1)
    scheduler = scheduler_of(optimizer, case)
    rates = []
    for step in range(count):
        rates.append([group["lr"] for group in optimizer.param_groups])
        if step + 1 < count:
            scheduler.step()
    return {**case, "rates": rates}


GROUPS = [0.1, 0.02, 3.0]
cases = [
    run(4, schedule="constant"),
    run(9, schedule="linear_warmup"),
    run(25, schedule="linear_warmup", options={"steps": 20, "start_factor": 0.01},
        base_rates=GROUPS),
    run(12, schedule="linear_warmup",
        options={"steps": 10, "start_factor": 1.0, "end_factor": 0.25}),
    run(3, schedule="linear_warmup", options={"steps": 1, "start_factor": 0.5}),
    run(41, schedule="cosine", options={"steps": 40}, base_rates=GROUPS),
    run(31, schedule="cosine", options={"steps": 30, "min_factor": 0.1}, base_rates=[0.3]),
    run(2, schedule="cosine", options={"steps": 1}),
    run(22, schedule="step_decay", options={"every": 5}, base_rates=GROUPS),
    run(40, schedule="step_decay", options={"every": 1, "factor": 0.95}),
    run(50, schedule="one_cycle", options={"steps": 50}, base_rates=GROUPS),
    run(17, schedule="one_cycle",
        options={"steps": 17, "warmup_fraction": 0.45, "start_divisor": 10.0, "final_divisor": 100.0}),
    run(20, schedule="one_cycle", options={"steps": 20, "warmup_fraction": 1.0}),
    run(20, schedule="one_cycle", options={"steps": 20, "warmup_fraction": 0.0}),
    run(2, schedule="one_cycle", options={"steps": 2}),
    run(30, schedule="inverse_root", base_rates=GROUPS),
    run(31, schedule="linear_warmup", options={"steps": 10, "start_factor": 0.1},
        then={"schedule": "cosine", "options": {"steps": 20}}, base_rates=GROUPS),
    run(20, schedule="linear_warmup", options={"steps": 5},
        then={"schedule": "step_decay", "options": {"every": 4}}),
    run(20, schedule="linear_warmup", options={"steps": 8},
        then={"schedule": "inverse_root"}, at=4),
    run(8, schedule="constant", then={"schedule": "inverse_root"}, at=3),
]
path = pathlib.Path(__file__).parent / "schedules.json"
lines.write(path, {"torch": torch.__version__, "cases": cases})
print(len(cases), "cases,", path.stat().st_size, "bytes")
