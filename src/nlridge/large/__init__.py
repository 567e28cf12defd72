"""Images larger than memory: the same algorithm, pass by pass over bands of rows.

entry       what `denoise` calls for Dask arrays and with `out`
disk        opens and creates arrays on disk (Zarr, NPY, TIFF)
limits      refuses arrays that are implausible or too large for the disk
frames      the images of an array, and the plan for each of them
run         denoises one array on disk into another
resume      what an interrupted run leaves behind, so that the next one can resume
stages      the passes of the algorithm, on intermediate images kept in files
bands       the files of these intermediate images, one for each band of rows
lazy        an image whose rows are read or computed on demand
scales      coarser images, and missing pixels filled in, computed in bands
planes      the way of a frame from pixels to denoised planes, for files and Dask graphs alike
executors   where bands are computed: in threads of this process, or on a Dask cluster
dask_graph  the same passes as a Dask graph, without any files
"""
