"""Sphinx configuration. Build with ``make docs``; warnings are errors."""

import os
import runpy
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "bayesvm"
author = "the bayesvm developers"
copyright = "2026, the bayesvm developers"
version = release = installed_version("bayesvm")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "mathml",  # formulas without scripts and without network
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
]
templates_path = ["_templates"]
html_static_path = ["_static"]
exclude_patterns = ["_build", "_templates", "sg_execution_times.rst"]
root_doc = "index"
suppress_warnings = ["config.cache"]

# Links to other libraries need the network; a build without it stays possible.
# With links: BAYESVM_INTERSPHINX=1 make docs
if os.environ.get("BAYESVM_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = False  # a module shows its __all__, or what it defines itself
autodoc_typehints = "none"  # numpydoc sections carry types and shapes
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

examples = Path(__file__).parent.parent / "examples"
if any(examples.glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(examples)],
        "gallery_dirs": ["auto_examples"],
        "filename_pattern": r"/plot_",
        "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
        "backreferences_dir": "generated/backreferences",
        "doc_module": ("bayesvm",),
        "reference_url": {"bayesvm": None},
        "within_subsection_order": "FileNameSortKey",
        # A failing example is a warning, hence an error under -W, once all examples have run.
        "only_warn_on_example_error": True,
        "download_all_examples": False,
        "remove_config_comments": True,
        "show_memory": False,
        "thumbnail_size": (640, 400),
        "write_computation_times": False,
    }
else:  # index.md names a gallery that is not there
    exclude_patterns.append("auto_examples/**")
    suppress_warnings.append("toc.excluded")

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Figures of the pages are drawn by the scripts in docs/figures.
plot_basedir = "figures"
plot_formats = [("png", 160)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {
    "axes.prop_cycle": "cycler('color', ['#1f4f82', '#d9730d', '#2e8b57', '#a33b5e'])",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (6.4, 3.2),
    "font.size": 10,
    "legend.frameon": False,
}
plot_apply_rcparams = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "bayesvm"
html_logo = html_favicon = "_static/logo.svg"
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_sidebars = {"index": [], "auto_examples/index": []}
html_theme_options = {
    "logo": {"text": "bayesvm", "alt_text": "bayesvm, home"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_nav_level": 1,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_show_sourcelink = False


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out methods inherited from scikit-learn: its own pages describe them."""
    module = getattr(obj, "__module__", None)
    return True if isinstance(module, str) and module.startswith("sklearn.") else None


def draw_imports(app):
    """Write the figure of the page *Design* from the source."""
    runpy.run_path(str(Path(__file__).parent / "import_graph.py"))["main"]()


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("builder-inited", draw_imports)
