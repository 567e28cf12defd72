"""One module for each format: see `nlridge.files`."""
