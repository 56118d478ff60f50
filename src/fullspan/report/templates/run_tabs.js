// Tabs: one panel at a time on the screen, all of them on paper and without scripts.
const tabs = [...document.querySelectorAll('[role="tab"]')];
const panelOf = (tab) => byId(tab.getAttribute("aria-controls"));
const wake = (name) => {
  const panel = panels[name];
  if (!panel || !byId(name)) return;
  if (!panel.ready) panel.start();
  if (!panel.ready || panel.stale) panel.draw();
  panel.ready = true;
  panel.stale = false;
};
const open = (tab, focus) => {
  for (const each of tabs) {
    each.setAttribute("aria-selected", String(each === tab));
    each.tabIndex = each === tab ? 0 : -1;
    panelOf(each).hidden = each !== tab;
  }
  if (focus) tab.focus();
  if (map.playing !== null && panelOf(tab).id !== "maps") stop();
  wake(panelOf(tab).id);
};
const openHash = () => {
  const wanted = tabs.find((tab) => `#${panelOf(tab).id}` === location.hash);
  open(wanted ?? tabs[0]);
};
tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => { open(tab); history.replaceState(null, "", `#${panelOf(tab).id}`); });
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    open(tabs[(to + tabs.length) % tabs.length], true);
  });
});
const redraw = () => {
  for (const [name, panel] of Object.entries(panels)) {
    if (!panel.ready) continue;
    if (byId(name).hidden) panel.stale = true; else panel.draw();
  }
};
byId("theme").addEventListener("click", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("hashchange", openHash);
addEventListener("beforeprint", () => {
  for (const panel of tabs.map(panelOf)) {
    if (panel.hidden) panel.dataset.away = "";
    panel.hidden = false;
    wake(panel.id);
  }
});
addEventListener("afterprint", () => { for (const panel of tabs.map(panelOf)) if ("away" in panel.dataset) { delete panel.dataset.away; panel.hidden = true; } });
document.querySelectorAll(".key-line line").forEach((line, place) => { line.style.stroke = inkOf(place, runs.length); });
byId("tabs").hidden = false;
for (const each of document.querySelectorAll(".scripted")) each.hidden = false;
openHash();
document.documentElement.dataset.run = "true";
