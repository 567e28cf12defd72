"""What is decided about an image before it is denoised, and the way from its pixels to planes and back."""
