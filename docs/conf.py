"""The documentation: `make docs` builds it in site/, without network; warnings are errors."""

from nlridge import __version__

project = "nlridge"
author = "the authors of nlridge"
copyright = "the authors of nlridge, BSD-3-Clause"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
exclude_patterns = ["releasing.md"]
html_theme = "furo"
html_title = "nlridge"
html_copy_source = False

myst_heading_anchors = 3
autodoc_typehints = "none"  # docstrings have them, in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
add_module_names = False
default_role = "code"  # names in docstrings
