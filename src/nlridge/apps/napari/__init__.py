"""The plug-in for napari, which finds it by `napari.yaml`.

Only `widget` and `residual` import napari and Qt, and only napari imports them.
"""
