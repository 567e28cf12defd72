"""The kinds of images that the algorithm runs on: each implements the protocol `Images` of `core.algorithm.images`.

array      arrays in memory
stream     streams of frames that belong together; `flicker` and `motion` measure how frames change
tensor     tensors of PyTorch
parts      images that are computed part by part, the base of the next three
stored     images in files, one for each band of rows (`bands`), computed in threads or on a cluster (`executors`)
graph      tasks of a Dask graph
region     one window of the result, computed from the pixels that it depends on
lazy       images whose parts are read or computed on demand
"""
