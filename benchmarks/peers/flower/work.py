"""What runs inside Flower's worker processes; a module of its own, so that its caches last."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from coterie.core.client import Client
from coterie.studies.bench.contenders import Plain
from coterie.studies.bench.workloads import Workload, clients_of


@functools.cache
def data_of(workload: Workload) -> Sequence[Client]:
    return clients_of(workload)


@functools.cache
def site_of(workload: Workload, host: int) -> Plain:
    """One client's module, loader and optimiser, as in Flower's PyTorch examples."""
    client = data_of(workload)[host]
    return Plain(replace(workload, sizes=(len(client.train),)), [client])


def client_app(workload: Workload) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        host = int(context.node_config["partition-id"])
        site = site_of(workload, host)
        site.rows = 0
        site.first.load_state_dict(message.content["arrays"].to_torch_state_dict())
        site.train(site.first, site.loaders[0])
        content = RecordDict(
            {
                "arrays": ArrayRecord(site.first.state_dict()),
                "metrics": MetricRecord({"num-examples": site.rows}),
            }
        )
        return Message(content=content, reply_to=message)

    return app
