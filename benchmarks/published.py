"""Published PSNR in dB: constants, none of which is measured here."""

# Table 2 of the paper: {method: {set: {sigma: dB}}}. Algorithms of this package have the names of its methods.
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

_SIGMAS = (5, 15, 25, 35, 50)


def _levels(values):
    """{sigma: dB}, with sigma as text, as in the file of results."""
    known = dict(zip(_SIGMAS, values.split(), strict=True))
    return {str(sigma): float(value) for sigma, value in known.items() if value != "-"}


# The highest published means of methods that are not trained (WNNM, LIChI), and those of DnCNN: {set: {sigma: dB}}.
BEST_UNTRAINED = {
    "set12": _levels("38.36 32.71 30.26 28.69 27.05"),
    "bsd68": _levels("37.80 31.41 28.86 27.31 25.87"),
    "urban100": _levels("38.77 33.00 30.39 28.59 26.83"),
}
DNCNN = {
    "set12": _levels("- 32.86 30.44 28.82 27.18"),
    "bsd68": _levels("- 31.73 29.23 - -"),
    "urban100": _levels("- 32.68 29.97 28.11 26.28"),
}

# Lines in plots of Set12, {sigma: {method: dB}}.
SET12 = {
    sigma: {
        "WNNM, LIChI": BEST_UNTRAINED["set12"][str(sigma)],
        "DnCNN (trained)": DNCNN["set12"][str(sigma)],
    }
    for sigma in (15, 25, 50)
}
