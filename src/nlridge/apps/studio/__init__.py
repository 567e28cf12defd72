"""The studio: a page on this computer to denoise images by eye, and the server behind it."""
