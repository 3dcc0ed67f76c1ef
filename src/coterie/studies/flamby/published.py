"""What FLamby published: means and standard deviations over its five seeds, 42 to 46, by test set.

Worked out from the results files of its repository (owkin/FLamby,
results/results_benchmark_fed_heart_disease.csv and results_benchmark_fed_tcga_brca.csv; MIT licence): Ogier
du Terrail et al., 2022. Accuracy for heart disease, concordance for breast cancer. `alone` is "Local k" on
client k's own test rows; `pooled` as a test set is all clients' test rows, standardised together where they
are standardised at all.
"""

from __future__ import annotations

from coterie.studies.base import printed

Figure = tuple[float, float]
"""Mean and standard deviation."""

HEART = """
            cleveland     hungary       switzerland   va            pooled
pooled      0.7827 .0110  0.7640 .0000  0.7500 .0000  0.6444 .0000  0.7953 .0028
alone       0.7462 .0161  0.7461 .0062  0.7250 .1218  0.7022 .0512
fedavg      0.7308 .0215  0.7191 .0328  0.6500 .1135  0.6400 .0507  0.7480 .0268
fedprox     0.7308 .0215  0.7191 .0328  0.6500 .1135  0.6400 .0507  0.7480 .0268
scaffold    0.7269 .0187  0.7191 .0328  0.6500 .1135  0.6400 .0507  0.7480 .0268
fedadam     0.7519 .0172  0.7461 .0188  0.7375 .0280  0.6667 .0444  0.7787 .0146
fedyogi     0.7596 .0180  0.7528 .0178  0.7375 .0280  0.6756 .0404  0.7787 .0153
fedadagrad  0.7596 .0180  0.7528 .0178  0.7375 .0280  0.6756 .0404  0.7787 .0153
cyclic      0.7577 .0143  0.7618 .0146  0.7125 .0948  0.6400 .0186  0.7850 .0123
"""
BRCA = """
            northeast     south         west          midwest       europe        canada        pooled
pooled      0.7732 .0656  0.5818 .1758  0.7056 .1565  0.6292 .1498  0.7660 .2725  0.6000 .2789  0.7041 .1144
alone       0.6441 .0382  0.5273 .0956  0.8500 .0355  0.5958 .0378  0.8511 .0583  0.6667 .0000
fedavg      0.7447 .0990  0.6273 .2276  0.6907 .1904  0.6750 .1202  0.7872 .3734  0.8667 .2981  0.7353 .1750
fedprox     0.7145 .0934  0.6682 .2354  0.6667 .1868  0.6667 .1473  0.7915 .3228  0.8667 .2981  0.7167 .1621
scaffold    0.5927 .0408  0.7545 .1152  0.6759 .0472  0.4542 .1393  0.9106 .0628  0.7333 .1491  0.6995 .0347
fedadam     0.8486 .0245  0.6545 .0493  0.8815 .0411  0.6042 .1188  0.9021 .0323  1.0000 .0000  0.8421 .0168
fedyogi     0.8486 .0245  0.6545 .0493  0.8815 .0411  0.6042 .1188  0.9021 .0323  1.0000 .0000  0.8421 .0166
fedadagrad  0.8480 .0195  0.6227 .0614  0.8722 .0240  0.6792 .0543  0.8553 .0551  1.0000 .0000  0.8338 .0075
cyclic      0.5302 .1009  0.8182 .0557  0.7037 .0314  0.4250 .1991  0.8723 .2154  0.6000 .1491  0.6607 .0749
"""


def _figures(text: str) -> dict[str, dict[str, Figure]]:
    """By way and test rows."""
    return {
        way: {test: (float(words.split()[0]), float(words.split()[1])) for test, words in line.items()}
        for way, line in printed(text).items()
    }


PUBLISHED = {"heart": _figures(HEART), "brca": _figures(BRCA)}
FINE_TUNED: Figure = (0.735, 0.718)
"""Heart disease, FedAvg with fine-tuning and without, means over clients and seeds: an experiment of its own.
By the results file FedAvg has 0.685, so that its settings must have been others; they are not known.
"""
