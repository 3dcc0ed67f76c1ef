"""What FLamby published: means and standard deviations over its five seeds, 42 to 46, by test set.

Worked out from the results files of its repository (owkin/FLamby,
results/results_benchmark_fed_heart_disease.csv and results_benchmark_fed_tcga_brca.csv; MIT licence): Ogier
du Terrail et al., 2022. Accuracy for heart disease, concordance for breast cancer. `alone` is "Local k" on
client k's own test rows; `pooled` as a test set is all clients' test rows, standardised together where they
are standardised at all.
"""

from __future__ import annotations

Figure = tuple[float, float]
"""Mean and standard deviation."""

PUBLISHED: dict[str, dict[str, dict[str, Figure]]] = {
    "heart": {
        "pooled": {
            "cleveland": (0.7827, 0.0110),
            "hungary": (0.7640, 0.0000),
            "switzerland": (0.7500, 0.0000),
            "va": (0.6444, 0.0000),
            "pooled": (0.7953, 0.0028),
        },
        "alone": {
            "cleveland": (0.7462, 0.0161),
            "hungary": (0.7461, 0.0062),
            "switzerland": (0.7250, 0.1218),
            "va": (0.7022, 0.0512),
        },
        "fedavg": {
            "cleveland": (0.7308, 0.0215),
            "hungary": (0.7191, 0.0328),
            "switzerland": (0.6500, 0.1135),
            "va": (0.6400, 0.0507),
            "pooled": (0.7480, 0.0268),
        },
        "fedprox": {
            "cleveland": (0.7308, 0.0215),
            "hungary": (0.7191, 0.0328),
            "switzerland": (0.6500, 0.1135),
            "va": (0.6400, 0.0507),
            "pooled": (0.7480, 0.0268),
        },
        "scaffold": {
            "cleveland": (0.7269, 0.0187),
            "hungary": (0.7191, 0.0328),
            "switzerland": (0.6500, 0.1135),
            "va": (0.6400, 0.0507),
            "pooled": (0.7480, 0.0268),
        },
        "fedadam": {
            "cleveland": (0.7519, 0.0172),
            "hungary": (0.7461, 0.0188),
            "switzerland": (0.7375, 0.0280),
            "va": (0.6667, 0.0444),
            "pooled": (0.7787, 0.0146),
        },
        "fedyogi": {
            "cleveland": (0.7596, 0.0180),
            "hungary": (0.7528, 0.0178),
            "switzerland": (0.7375, 0.0280),
            "va": (0.6756, 0.0404),
            "pooled": (0.7787, 0.0153),
        },
        "fedadagrad": {
            "cleveland": (0.7596, 0.0180),
            "hungary": (0.7528, 0.0178),
            "switzerland": (0.7375, 0.0280),
            "va": (0.6756, 0.0404),
            "pooled": (0.7787, 0.0153),
        },
        "cyclic": {
            "cleveland": (0.7577, 0.0143),
            "hungary": (0.7618, 0.0146),
            "switzerland": (0.7125, 0.0948),
            "va": (0.6400, 0.0186),
            "pooled": (0.7850, 0.0123),
        },
    },
    "brca": {
        "pooled": {
            "northeast": (0.7732, 0.0656),
            "south": (0.5818, 0.1758),
            "west": (0.7056, 0.1565),
            "midwest": (0.6292, 0.1498),
            "europe": (0.7660, 0.2725),
            "canada": (0.6000, 0.2789),
            "pooled": (0.7041, 0.1144),
        },
        "alone": {
            "northeast": (0.6441, 0.0382),
            "south": (0.5273, 0.0956),
            "west": (0.8500, 0.0355),
            "midwest": (0.5958, 0.0378),
            "europe": (0.8511, 0.0583),
            "canada": (0.6667, 0.0000),
        },
        "fedavg": {
            "northeast": (0.7447, 0.0990),
            "south": (0.6273, 0.2276),
            "west": (0.6907, 0.1904),
            "midwest": (0.6750, 0.1202),
            "europe": (0.7872, 0.3734),
            "canada": (0.8667, 0.2981),
            "pooled": (0.7353, 0.1750),
        },
        "fedprox": {
            "northeast": (0.7145, 0.0934),
            "south": (0.6682, 0.2354),
            "west": (0.6667, 0.1868),
            "midwest": (0.6667, 0.1473),
            "europe": (0.7915, 0.3228),
            "canada": (0.8667, 0.2981),
            "pooled": (0.7167, 0.1621),
        },
        "scaffold": {
            "northeast": (0.5927, 0.0408),
            "south": (0.7545, 0.1152),
            "west": (0.6759, 0.0472),
            "midwest": (0.4542, 0.1393),
            "europe": (0.9106, 0.0628),
            "canada": (0.7333, 0.1491),
            "pooled": (0.6995, 0.0347),
        },
        "fedadam": {
            "northeast": (0.8486, 0.0245),
            "south": (0.6545, 0.0493),
            "west": (0.8815, 0.0411),
            "midwest": (0.6042, 0.1188),
            "europe": (0.9021, 0.0323),
            "canada": (1.0000, 0.0000),
            "pooled": (0.8421, 0.0168),
        },
        "fedyogi": {
            "northeast": (0.8486, 0.0245),
            "south": (0.6545, 0.0493),
            "west": (0.8815, 0.0411),
            "midwest": (0.6042, 0.1188),
            "europe": (0.9021, 0.0323),
            "canada": (1.0000, 0.0000),
            "pooled": (0.8421, 0.0166),
        },
        "fedadagrad": {
            "northeast": (0.8480, 0.0195),
            "south": (0.6227, 0.0614),
            "west": (0.8722, 0.0240),
            "midwest": (0.6792, 0.0543),
            "europe": (0.8553, 0.0551),
            "canada": (1.0000, 0.0000),
            "pooled": (0.8338, 0.0075),
        },
        "cyclic": {
            "northeast": (0.5302, 0.1009),
            "south": (0.8182, 0.0557),
            "west": (0.7037, 0.0314),
            "midwest": (0.4250, 0.1991),
            "europe": (0.8723, 0.2154),
            "canada": (0.6000, 0.1491),
            "pooled": (0.6607, 0.0749),
        },
    },
}
FINE_TUNED: Figure = (0.735, 0.718)
"""Heart disease, FedAvg with fine-tuning and without, means over clients and seeds: an experiment of its own.
By the results file FedAvg has 0.685, so that its settings must have been others; they are not known.
"""
