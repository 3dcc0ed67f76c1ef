"""Every method, one paper, one file."""

from coterie.methods.baselines.central import Central
from coterie.methods.baselines.local import Local
from coterie.methods.server.fedavg import FedAvg
from coterie.methods.server.finetune import FineTune

__all__ = ["Central", "FedAvg", "FineTune", "Local"]
