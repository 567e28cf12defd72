"""Configuration of the documentation: `make docs` builds it in site/, without network; warnings are errors."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref

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
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # docstrings describe the types in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
add_module_names = False
default_role = "code"  # names in docstrings


def _visit_inline_math(translator, node):
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _visit_displayed_math(translator, node):
    formula = tex2mathml(node.astext()).replace("<math ", '<math display="block" ', 1)
    translator.body.append(f"<div>{formula}</div>\n")
    raise nodes.SkipNode


def _shorten_citations(app, doctree):
    """Show [1] for the unique labels of numpydoc, which does so itself in reStructuredText but not in Markdown."""
    for reference in doctree.findall(pending_xref):
        label = re.fullmatch(r"\[R\w+-(\d+)\]", reference.astext())
        if label:
            reference.children = [nodes.inline(text=f"[{label[1]}]")]


def setup(app):
    # Browsers show MathML without a script from the network.
    app.add_html_math_renderer("mathml", (_visit_inline_math, None), (_visit_displayed_math, None))
    app.connect("doctree-read", _shorten_citations)
