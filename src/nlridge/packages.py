"""Packages that some of the work needs, and that are not installed with this one."""


def not_installed(needs: str, package: str) -> ImportError:
    """An error with advice that works however nlridge was installed: `needs` is, say, "FITS files need"."""
    return ImportError(f"{needs} {package}, which is not installed: pip install {package}")
