"""Rules by which replies become one belief although some of them may be lies. One paper, one file; importing
this package registers all of them in `RULES`.
"""

from coterie.rules.base import RULES, Needs, Rule
from coterie.rules.bulyan import Bulyan
from coterie.rules.centred_clipping import CentredClipping
from coterie.rules.chain import Chain, chained, liars_of, with_fewer
from coterie.rules.fltrust import FLTrust
from coterie.rules.geometric_median import GeometricMedian
from coterie.rules.krum import Krum
from coterie.rules.meamed import Meamed
from coterie.rules.mean import Mean
from coterie.rules.median import Median
from coterie.rules.minimum_diameter import MinimumDiameter
from coterie.rules.monna import MoNNA
from coterie.rules.nnm import NNM
from coterie.rules.norm_bound import NormBound
from coterie.rules.trimmed_mean import TrimmedMean

__all__ = [
    "NNM",
    "RULES",
    "Bulyan",
    "CentredClipping",
    "Chain",
    "FLTrust",
    "GeometricMedian",
    "Krum",
    "Meamed",
    "Mean",
    "Median",
    "MinimumDiameter",
    "MoNNA",
    "Needs",
    "NormBound",
    "Rule",
    "TrimmedMean",
    "chained",
    "liars_of",
    "with_fewer",
]
