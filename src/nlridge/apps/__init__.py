"""What people use: the command line, the studio, the plug-in for napari, and the pages that they show."""
