"use strict";
// Before the page is shown, so that it does not flash in the other theme.
(() => {
  let kept = null;
  try {
    kept = localStorage.getItem("probe_flow.theme");
  } catch {
    // Pages opened from disk may have no storage; the system's choice is as good.
  }
  const isDark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", isDark);
})();
