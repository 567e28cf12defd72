"""Images larger than memory: the same algorithm, step by step over bands of rows that are kept in files.

`later` is an image of which rows are read when they are needed, `bands` the files that keep one, `stages` the steps
of the algorithm on such images (with the coarser ones of `scales`), and `spreading` who does them: this process or
a cluster.  `frames` are the images of an array, and what concerns the whole of one; `stores` opens and makes arrays
on disk, and `running` goes from one to the other.  `graph` does the same for Dask arrays and keeps nothing in files.
`denoising` is what the public function calls.
"""
