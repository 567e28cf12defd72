"""Frames that belong together, such as those of a video: they are denoised one after the other as they arrive."""
