#!/usr/bin/python3
"""Writes schedules.json: learning rates of torch.optim.lr_scheduler.

Needs Debian's python3-torch. Each case has a schedule with its options (with rowgrad's names and
defaults), the base rate of each group, and the rates of all groups at steps 0, 1, 2 ... "then" is the
schedule that follows, from step "at" on, or from the end of the first schedule. The factors of "times"
are multiplied by the schedule's. "groups" has a schedule for each group. "plateau" has the options of a
reduction on plateaus, and "metrics" has a metric after each step, starting with step 0.

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


def cosine(optimizer, steps, min_factor=0.0, restart_multiplier=0):
    rates = {group["lr"] for group in optimizer.param_groups}
    assert min_factor == 0 or len(rates) == 1  # PyTorch has one minimum rate for all groups
    if restart_multiplier > 0:
        return lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, steps, restart_multiplier, min_factor * rates.pop())
    return lr_scheduler.CosineAnnealingLR(optimizer, steps, min_factor * rates.pop())


def step_decay(optimizer, every, factor=0.1):
    return lr_scheduler.StepLR(optimizer, every, factor)


def milestones(optimizer, steps, factor=0.1):
    return lr_scheduler.MultiStepLR(optimizer, steps, factor)


def polynomial(optimizer, steps, power=1.0):
    return lr_scheduler.PolynomialLR(optimizer, steps, power)


def one_cycle(optimizer, steps, warmup_fraction=0.3, start_divisor=25.0, final_divisor=1e4):
    return lr_scheduler.OneCycleLR(
        optimizer, [group["lr"] for group in optimizer.param_groups], total_steps=steps,
        pct_start=warmup_fraction, cycle_momentum=False, div_factor=start_divisor,
        final_div_factor=final_divisor)


def constant(optimizer):
    return lr_scheduler.ConstantLR(optimizer, factor=1.0)


def inverse_root(optimizer):
    return lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) ** -0.5)


FACTORS = {"inverse_root": lambda step: (step + 1) ** -0.5, "constant": lambda step: 1.0,
           "halves": lambda step: 0.5**step}


def scheduler_of(optimizer, case):
    if "groups" in case:
        return lr_scheduler.LambdaLR(optimizer, [FACTORS[name] for name in case["groups"]])
    scheduler = globals()[case["schedule"]](optimizer, **case.get("options", {}))
    if "times" in case:
        return lr_scheduler.ChainedScheduler([scheduler, scheduler_of(optimizer, case["times"])], optimizer)
    if "then" not in case:
        return scheduler
    at = case.get("at") or case["options"]["steps"]
    return lr_scheduler.SequentialLR(optimizer, [scheduler, scheduler_of(optimizer, case["then"])],
                                     [at])


def run(count, **case):
    base_rates = case.setdefault("base_rates", [0.1])
    optimizer = torch.optim.SGD(
        [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in base_rates], lr=1)
    plateau = None
    if "plateau" in case:
        options = dict(case["plateau"])
        renamed = {"mode": "max" if options.pop("maximize", False) else "min",
                   "threshold_mode": "rel" if options.pop("relative", True) else "abs",
                   "min_lr": options.pop("min_rate", 0.0)}
        plateau = lr_scheduler.ReduceLROnPlateau(optimizer, **renamed, **options)
    scheduler = scheduler_of(optimizer, case)
    rates = []
    for step in range(count):
        rates.append([group["lr"] for group in optimizer.param_groups])
        if plateau is not None:
            plateau.step(float(case["metrics"][step]))
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
    run(25, schedule="cosine", options={"steps": 7, "restart_multiplier": 1}, base_rates=GROUPS),
    run(40, schedule="cosine", options={"steps": 4, "min_factor": 0.1, "restart_multiplier": 2}),
    run(30, schedule="cosine", options={"steps": 1, "restart_multiplier": 3}),
    run(12, schedule="milestones", options={"steps": [3, 4, 9]}, base_rates=GROUPS),
    run(9, schedule="milestones", options={"steps": [2, 6, 6], "factor": 0.5}),
    run(8, schedule="polynomial", options={"steps": 5}, base_rates=GROUPS),
    run(24, schedule="polynomial", options={"steps": 20, "power": 2.5}),
    run(20, schedule="linear_warmup", options={"steps": 8},
        times={"schedule": "step_decay", "options": {"every": 3, "factor": 0.7}}, base_rates=GROUPS),
    run(15, schedule="linear_warmup", times={"schedule": "milestones", "options": {"steps": [2, 9]}}),
    run(12, groups=["inverse_root", "constant", "halves"], base_rates=GROUPS),
    run(20, schedule="constant", plateau={"patience": 2},
        metrics=[3, 2, 1, 1, 1, 1, 0.99995, 0.9998, 1, 2, "nan", 3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
        base_rates=GROUPS),
    run(16, schedule="constant",
        plateau={"maximize": True, "factor": 0.5, "patience": 1, "threshold": 0.1, "relative": False,
                 "cooldown": 2, "min_rate": 0.02}, base_rates=[0.1, 0.03],
        metrics=[1, 1.1, 1.2, 1.25, 1.3, 1.3, 1.3, 1.3, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]),
    run(12, schedule="constant", plateau={"patience": 0, "eps": 1e-3, "maximize": True, "threshold": 0.5},
        metrics=[1, 1.4, 1.6, 1.6, 2.3, 2.4, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5]),
]
path = pathlib.Path(__file__).parent / "schedules.json"
lines.write(path, {"torch": torch.__version__, "cases": cases})
print(len(cases), "cases,", path.stat().st_size, "bytes")
