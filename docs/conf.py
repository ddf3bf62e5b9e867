"""Sphinx: ``make docs`` writes the site to ``dist/docs``; a warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

import kafkalite

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "kafkalite"
author = "kafkalite's contributors"
copyright = "kafkalite's contributors"  # noqa: A001 - Sphinx reads this name
version = release = kafkalite.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "decisions",
    "tables",
    "spark_options",
]
exclude_patterns = ["requirements.txt"]
nitpicky = False

html_theme = "furo"
html_title = f"kafkalite {version}"
html_static_path = ["_static"]
html_css_files = ["filter.css"]
html_js_files = ["filter.js"]
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Prompts and output of `console` blocks are not copied.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Source", "notes_style")]
