"""Arrays that are larger than memory: on disk, or Dask arrays.

entry           what the public functions call: checks an image, its masks and its map of noise levels; denoises it to disk
disk            opens arrays on disk (Zarr, NPY, TIFF)
new             creates them
limits          refuses arrays that are implausible, or too large for the disk
frames          the images of an array, and the plan for each of them
run             denoises one array on disk into another
sequences       the same for frames that belong together
resume          the work of an interrupted run, from which the next one resumes
graphs          denoises a Dask array into another
"""
