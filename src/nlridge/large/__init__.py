"""Images that are computed in parts: the same algorithm, pass by pass over bands of rows, or over one window.

entry       what `denoise` calls for Dask arrays, with `out`, and for regions of arrays on disk
disk        opens and creates arrays on disk (Zarr, NPY, TIFF)
limits      refuses arrays that are implausible or too large for the disk
frames      the images of an array, and the plan for each of them
run         denoises one array on disk into another
resume      what an interrupted run leaves behind, so that the next one can resume
stages      the passes of the algorithm, on intermediate images kept in files
bands       the files of these intermediate images, one for each band of rows
lazy        images whose parts are read or computed on demand
scales      coarser images, and missing pixels filled in, computed in parts
planes      the way of a frame from pixels to denoised planes and back, for files, Dask graphs and regions alike
executors   where bands are computed: in threads of this process, or on a Dask cluster
dask_graph  the same passes as a Dask graph, without any files
region      the same passes for one window of the result, from no more than it depends on
"""
