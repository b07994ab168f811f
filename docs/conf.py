"""Settings of the documentation site; `make docs` builds it. DESIGN.md says why Sphinx."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

import blts  # noqa: E402

project = "blts"
author = "The blts authors"
project_copyright = "The blts authors, Apache-2.0"
version = release = blts.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    "entries",
    "linking",
    "generated",
    "notebooks",
    "accessible",
]
exclude_patterns = ["_build", "extend", "notebooks"]
nitpicky = True
smartquotes = False  # "step" is a value, and is typed so

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # CHANGELOG.md and generated pages begin below their page's title

default_role = "code"  # docstrings write `code`, as Markdown does
autodoc_inherit_docstrings = False  # a method is explained once, in its base class
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_title = f"blts {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_last_updated_fmt = None
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
