// MathJax 3.2.2 (Apache License 2.0, mathjax/LICENSE) draws formulas as SVG and loads nothing else.
const LONGEST = 240; // pixels that a formula in the text may take on any phone
window.MathJax = {
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]] },
  options: { enableMenu: false, processHtmlClass: "arithmatex", ignoreHtmlClass: ".*" },
  startup: {
    pageReady: () =>
      MathJax.startup.defaultPageReady().then(() => {
        for (const formula of document.querySelectorAll("span.arithmatex mjx-container")) {
          formula.classList.toggle("long", formula.firstElementChild.clientWidth > LONGEST);
        }
      }),
  },
};
