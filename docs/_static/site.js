// For readers without a mouse: what scrolls can be focused, and buttons of the sidebar have a name.
addEventListener("load", () => {
  const scrolling = "article pre, article div.math, .pst-scrollable-table-container";
  const mark = () => document.querySelectorAll(scrolling).forEach((each) => {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  });
  mark();
  setTimeout(mark, 500);
  addEventListener("resize", () => setTimeout(mark, 500));
  document.querySelectorAll("nav details > summary:not([aria-label])").forEach((each) => {
    const link = each.closest("li")?.querySelector("a");
    each.setAttribute("aria-label", `Pages of ${link ? link.textContent.trim() : "this section"}`);
  });
});
