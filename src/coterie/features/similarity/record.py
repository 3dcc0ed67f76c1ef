"""What a run's record says of how alike its sites are."""

from collections.abc import Mapping

from coterie.features.similarity.similarity import similarity_of
from coterie.runs.record import Kept

KEPT: Mapping[str, Kept] = {}
VIEWS = {"similarity": similarity_of}
