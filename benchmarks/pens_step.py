"""Where the time of one training step of the PENS CNN goes: python benchmarks/pens_step.py

One client, batches of 8, Adam, one thread, as a worker of the engine `pool` runs it. Operations by their
share of the time, beside what the same arithmetic would take as one large matrix product on one thread.
"""

from __future__ import annotations

import torch
from torch.profiler import ProfilerActivity, profile

from coterie.core import belief as tree
from coterie.core.kernel import Carry, Tick
from coterie.core.learner import Batch, Learner
from coterie.engines.eager import EagerLearner
from coterie.studies.bench.measure import operations_per_sample, sgemm_rate
from coterie.studies.bench.workloads import WORKLOADS, clients_of

STEPS, BATCH = 200, 8
PARTS = {
    "convolutions": ("convolution",),
    "pooling": ("max_pool", "fill_"),
    "rectifying": ("clamp_min", "threshold", "relu"),
    "Adam": ("mul", "div", "add", "sqrt", "pow", "sub", "cat"),
    "copies": ("copy_",),
}


def part_of(operation: str) -> str:
    name = operation.removeprefix("aten::")
    for part, names in PARTS.items():
        if any(name == n or (part not in ("Adam", "copies") and n in name) for n in names):
            return part
    return "the rest"


if __name__ == "__main__":
    torch.set_num_threads(1)
    workload = WORKLOADS["pens-cnn-20"]
    module, kernel = workload.module(), workload.local
    learner = EagerLearner(Learner(module, "classification"))
    belief = learner.layout.pack(tree.belief_of(module))
    rows = clients_of(workload)[0].train
    batch = Batch(rows.x[:BATCH], rows.y[:BATCH], torch.ones(BATCH))
    tick = Tick(torch.tensor(1.0, dtype=torch.float64), torch.tensor(1))
    carry: Carry = kernel.start(belief, kernel.fresh(learner, belief), {})
    with torch.no_grad():
        for _ in range(10):
            carry = kernel.step(learner, carry, batch, tick)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            for _ in range(STEPS):
                carry = kernel.step(learner, carry, batch, tick)
    spent: dict[str, float] = {}
    for event in seen.key_averages():
        part = part_of(event.key)
        spent[part] = spent.get(part, 0.0) + event.self_cpu_time_total / STEPS
    total = sum(spent.values())
    ideal = BATCH * operations_per_sample(workload) / sgemm_rate(1024) * 1e6
    for part, us in sorted(spent.items(), key=lambda entry: -entry[1]):
        print(f"{part:<14} {us:6.0f} us  {us / total:5.1%}")
    print(f"{'a step':<14} {total:6.0f} us; as one matrix product {ideal:.0f} us, {ideal / total:.0%}")
    print(f"convolutions alone reach {ideal / spent['convolutions']:.0%} of that rate")
