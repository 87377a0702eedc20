// MathJax 3.2.2 (Apache License 2.0, mathjax/LICENSE) draws formulas as SVG and loads nothing else.
window.MathJax = {
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]] },
  options: { enableMenu: false, processHtmlClass: "arithmatex", ignoreHtmlClass: ".*" },
};
