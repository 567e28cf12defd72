"""One module for each file format; `nlridge.files` describes what it has to provide."""
