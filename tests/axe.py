"""The accessibility rules of axe-core, for pages in a browser.

The script is the one in the package axe-playwright-python. It is given to the browser by its
debugger, because the policy of the pages allows no script of others.
"""

from __future__ import annotations

from importlib.resources import files

SCRIPT = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8") + ";1"
"""Expression that defines `axe` in a page."""
VIOLATIONS = """
axe.run(document, {iframes: false, resultTypes: ["violations"]}).then(found => found.violations.map(
  rule => [rule.id, rule.impact, ...rule.nodes.slice(0, 3).map(node => node.html.slice(0, 150))]
))
"""
"""Expression of a promise of the rules that a page breaks: name, impact, and the first elements.
Frames are pages of their own.
"""
