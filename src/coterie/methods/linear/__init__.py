"""Linear models that sites fit together exactly, from sums over their rows."""

from coterie.methods.linear.partial import Partial
from coterie.methods.linear.pooled import Pooled
from coterie.methods.linear.recalibrated import Recalibrated

__all__ = ["Partial", "Pooled", "Recalibrated"]
