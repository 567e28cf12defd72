"""Published PSNR in dB: constants, none of which is measured here."""

# Table 2 of the paper: {method: {set: {sigma: dB}}}.  Algorithms of this package have the names of its methods.
_SETS = ("set12", "bsd68", "urban100")
_TABLE_2 = {
    "noisy": "24.61 20.17  24.61 20.17  24.61 20.17",
    "bm3d": "32.37 29.97  31.07 28.57  32.35 29.70",
    "nl-bayes": "32.25 29.88  31.16 28.70  31.96 29.34",
    "nl-ridge": "32.46 30.00  31.20 28.67  32.53 29.90",
    "DIP": "30.12 27.54  28.83 26.59",
    "Noise2Self": "31.01 28.64  29.46 27.72",
    "Self2Self": "32.07 30.02  30.62 28.60",
    "DnCNN (trained)": "32.86 30.44  31.73 29.23  32.68 29.97",
    "FFDNet (trained)": "32.75 30.43  31.63 29.19  32.43 29.92",
    "LIDIA (trained)": "32.85 30.41  31.62 29.11  32.80 30.12",
}
TABLE_2 = {
    method: {
        name: {15: float(row[2 * k]), 25: float(row[2 * k + 1])}
        for k, name in enumerate(_SETS[: len(row) // 2])
    }
    for method, row in ((method, text.split()) for method, text in _TABLE_2.items())
}

# The names under which the denoisers of `benchmarks.peers` are published.
PEERS = {
    "dip": "DIP",
    "noise2self": "Noise2Self",
    "self2self": "Self2Self",
    "dncnn": "DnCNN (trained)",
    "ffdnet": "FFDNet (trained)",
    "lidia": "LIDIA (trained)",
}

# The paper's figure: Barbara (image 09 of Set12) at sigma 20.
BARBARA = {
    "noisy": 22.09,
    "bm3d": 31.72,
    "nl-bayes": 31.54,
    "nl-ridge": 32.06,
    "Self2Self": 31.62,
    "DnCNN (trained)": 31.06,
}

# The highest published means on Set12, {sigma: {method: dB}}.
SET12 = {
    15: {"WNNM, LIChI": 32.71, "DnCNN (trained)": 32.86},
    25: {"WNNM, LIChI": 30.26, "DnCNN (trained)": 30.44},
    50: {"WNNM, LIChI": 27.05, "DnCNN (trained)": 27.18},
}
