"use strict";
(() => {
  const root = document.documentElement;
  const all = (what, within = document) => [...within.querySelectorAll(what)];

  // theme
  const remember = { get() { try { return localStorage.getItem("fullspan-theme"); } catch { return null; } },
                     set(value) { try { localStorage.setItem("fullspan-theme", value); } catch { /* a file may have no storage */ } } };
  const theme = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (["light", "dark"].includes(remember.get())) root.dataset.theme = remember.get();
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; remember.set(root.dataset.theme); });

  // one table at a time
  const links = all(".switch a");
  const sections = all("section.table");
  const show = () => {
    const wanted = location.hash.slice(1);
    const known = sections.some((section) => section.id === wanted) || wanted === "all";
    const chosen = known ? wanted : links.length ? sections[0].id : "all";
    for (const section of sections) section.hidden = chosen !== "all" && section.id !== chosen;
    for (const link of links) link.dataset.table === chosen ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  };
  addEventListener("hashchange", () => { show(); if (links.length) scrollTo(0, 0); });
  show();

  // read out the value under the pointer, or step through with the arrow keys
  for (const svg of all("figure > svg[data-hover]")) {
    const points = JSON.parse(svg.dataset.hover);
    const cursor = svg.querySelector(".cursor");
    const out = svg.parentElement.querySelector(".readout");
    if (!points.length) continue;
    let at = -1;
    const read = (index) => {
      at = Math.max(0, Math.min(points.length - 1, index));
      cursor.setAttribute("x1", points[at][0]);
      cursor.setAttribute("x2", points[at][0]);
      cursor.removeAttribute("hidden");
      out.textContent = points[at][1];
    };
    const nearest = (x) => points.reduce((best, point, index) => Math.abs(point[0] - x) < Math.abs(points[best][0] - x) ? index : best, 0);
    svg.addEventListener("pointermove", (event) => {
      const matrix = svg.getScreenCTM();
      if (matrix) read(nearest((event.clientX - matrix.e) / matrix.a));
    });
    svg.addEventListener("pointerleave", () => { cursor.setAttribute("hidden", ""); out.textContent = ""; });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      read(at + step);
    });
  }

  // sort the readings
  const key = (row, column) => {
    let place = 0;
    for (const cell of row.cells) { if (place <= column && column < place + cell.colSpan) return cell.dataset.sort ?? ""; place += cell.colSpan; }
    return "";
  };
  for (const table of all("table.sortable")) {
    const heads = all("thead th:not(.plain)", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = all("tbody tr", table);
        rows.sort((one, other) => {
          const [a, b] = [key(one, column), key(other, column)];
          if (a === "" || b === "") return (a === "") - (b === "");
          return (Number(a) - Number(b)) * (up ? 1 : -1);
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // copy a remedy
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const block = button.parentElement.querySelector("pre");
      try { await navigator.clipboard.writeText(block.textContent.trimEnd()); }
      catch { getSelection().selectAllChildren(block); document.execCommand("copy"); }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
  root.dataset.ready = "true";
})();
