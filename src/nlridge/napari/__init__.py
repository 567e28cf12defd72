"""The plug-in for napari, which finds it by `napari.yaml`.

napari and Qt are imported by `widget` and `residual` alone, which nothing but napari imports.
"""
