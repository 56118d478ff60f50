// Curves: one chart a measure, a line a table or a run; the cursor and the zoom are shared by all charts.
const curves = { zoom: null, cursor: null, focus: null, log: new Set(), wide: new Set(), tables: new Set(), runs: new Set(range(runs.length)), find: "" };
const tableNames = [...new Set(runs.flatMap((run) => run.tables.map((table) => table.name)))];
const DASHES = ["", "7 4", "2 4", "9 3 2 3"];
const FRAME = { left: 56, right: 14, top: 26, bottom: 42 };

// one card a measure; the losses of the run share one, and so do readings of one measure after several normalizers
const [baseOf, variantOf] = [0, 1].map((part) => (name) => name.split("|")[part] ?? "");
const cards = (() => {
  const found = new Map();
  const ofRun = (name) => /(^|_)loss$/.test(name) ? "loss" : name;
  for (const run of runs) for (const curve of run.curves) {
    const key = curve.t < 0 ? `run:${ofRun(curve.m)}` : `table:${baseOf(curve.m)}`;
    if (!found.has(key)) found.set(key, { key, own: curve.t < 0, measures: [] });
    const card = found.get(key);
    if (!card.measures.includes(curve.m)) card.measures.push(curve.m);
  }
  const order = data.measures.map((measure) => measure.name);
  // the loss first, what watching cost last
  const cost = (card) => card.key === "run:monitor_overhead";
  const place = (card) => card.key === "run:loss" ? -1 : Math.min(...card.measures.map((name) => order.indexOf(name)));
  return [...found.values()].sort((a, b) => cost(a) - cost(b) || b.own - a.own || place(a) - place(b));
})();
const about = Object.fromEntries(data.measures.map((measure) => [measure.name, measure]));
const titleOf = (card) => card.measures.length === 1 ? about[card.measures[0]].title : card.own ? "Loss" : about[card.measures.find((name) => !variantOf(name)) ?? card.measures[0]].title;

const decoded = (run, curve) => {
  if (!curve.y) {
    curve.y = floats(curve.v);
    curve.full = unrolled(curve.f);
    curve.rows = curve.n ? unrolled(curve.n) : null;
    curve.at = run.axes[curve.x];
    curve.why = new Map(curve.gaps ?? []);
  }
  return curve;
};
const seriesOf = (card) => {
  const list = [];
  runs.forEach((run, r) => {
    if (!curves.runs.has(r)) return;
    for (const curve of run.curves) {
      if ((curve.t < 0) !== card.own || !card.measures.includes(curve.m)) continue;
      const table = card.own ? "" : run.tables[curve.t].name;
      if (!card.own && !curves.tables.has(table)) continue;
      const variant = card.measures.indexOf(curve.m);
      const varied = card.measures.length > 1;
      const part = card.own ? (varied ? about[curve.m].title : "") : varied ? `${table} · ${variantOf(curve.m) || "as it is"}` : table;
      const place = card.own ? variant : tableNames.indexOf(table);
      const several = varied || (!card.own && curves.tables.size > 1);
      list.push({
        key: card.own ? `${r}:${curve.m}` : `${r}:${table}${variantOf(curve.m) && `|${variantOf(curve.m)}`}`, run, r, table, measure: curve.m, curve: decoded(run, curve),
        name: many ? (several || !part ? [run.name, part].filter(Boolean).join(" · ") : run.name) : part || about[curve.m].title,
        ink: many ? inkOf(r, runs.length) : inkOf(place, card.own ? 8 : tableNames.length),
        dash: many || (varied && !card.own) ? DASHES[(varied ? variant : [...curves.tables].indexOf(table)) % DASHES.length] : "",
      });
    }
  });
  return list;
};
const clockAt = (series, place) => series.run.moments[state.clock][series.curve.at[place]];

const extent = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
const padded = ([low, high], log) => {
  if (!(low <= high)) return log ? [0.1, 1] : [0, 1];
  if (log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
  const room = 0.06 * (high - low) || Math.max(Math.abs(low) * 0.1, 1e-12);
  return [low - room, high + room];
};
const wholeRange = () => {
  let [low, high] = [Infinity, -Infinity];
  runs.forEach((run, r) => {
    if (curves.runs.has(r)) for (const value of run.moments[state.clock]) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  });
  return low < high ? [low, high] : low === high ? [low - 0.5, high + 0.5] : [0, 1];
};

const pathOf = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const dotsOf = (points) => points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h.01`).join("");
const stroke = (d, ink, width, more = "") => d ? `<path ${more} d="${d}" fill="none" stroke-linecap="round" stroke-linejoin="round" stroke-width="${width}" style="stroke:${ink}"/>` : "";

const draw = (card) => {
  const [W, H] = curves.wide.has(card.key) ? [920, 400] : [440, 262];
  const list = card.list = seriesOf(card);
  const [x0, x1] = curves.zoom ?? wholeRange();
  const log = curves.log.has(card.key);
  const inside = list.flatMap((series) => [...series.curve.y].filter((value, place) => {
    const at = clockAt(series, place);
    return !Number.isNaN(value) && at !== null && at >= x0 && at <= x1 && (!log || value > 0);
  }));
  const [y0, y1] = padded(extent(inside), log);
  const across = scale(x0, x1, FRAME.left, W - FRAME.right);
  const up = scale(y0, y1, H - FRAME.bottom, FRAME.top, log);
  Object.assign(card, { W, H, x: [x0, x1], y: [y0, y1], across, up, log, empty: !inside.length, stops: null });
  const id = `clip-${cards.indexOf(card)}`;
  const base = H - FRAME.bottom;
  const marks = ticks(y0, y1, { log }).map(([at, words]) => `<line x1="${FRAME.left}" x2="${W - FRAME.right}" y1="${up(at).toFixed(1)}" y2="${up(at).toFixed(1)}" style="stroke:var(--faint)"/>${text(FRAME.left - 7, up(at) + 4, words, { anchor: "end" })}`);
  for (const [at, words] of ticks(x0, x1, { time: state.clock === "time", most: W > 500 ? 10 : 6 }))
    marks.push(`<line x1="${across(at).toFixed(1)}" x2="${across(at).toFixed(1)}" y1="${base}" y2="${base + 4}" style="stroke:var(--null)"/>${text(across(at), base + 17, words, { anchor: "middle" })}`);
  marks.push(`<line x1="${FRAME.left}" x2="${W - FRAME.right}" y1="${base}" y2="${base}" style="stroke:var(--null)"/>`, text((FRAME.left + W - FRAME.right) / 2, H - 6, CLOCKS[state.clock], { anchor: "middle" }), text(4, 13, about[card.measures[0]].unit));
  const lines = list.map((series) => drawSeries(card, series));
  card.svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  card.svg.innerHTML = `<clipPath id="${id}"><rect x="${FRAME.left - 4}" y="${FRAME.top - 5}" width="${W - FRAME.left - FRAME.right + 8}" height="${H - FRAME.top - FRAME.bottom + 9}"/></clipPath>${marks.join("")}<g clip-path="url(#${id})">${lines.join("")}</g>${eventsOf(card)}${card.empty ? text((FRAME.left + W - FRAME.right) / 2, H / 2 - 8, list.length ? "no value here" : "no table chosen", { anchor: "middle" }) : ""}<g class="cursor" visibility="hidden"><line y1="${FRAME.top}" y2="${base}" style="stroke:var(--ink)" opacity=".5"/><g></g></g><rect class="zone" y="${FRAME.top}" height="${base - FRAME.top}" visibility="hidden" style="fill:var(--a)" opacity=".14"/>`;
  card.svg.setAttribute("aria-label", spoken(card));
  card.note.replaceChildren(...noted(card));
  card.table.refresh();
  drawLegend(card);
};

const drawSeries = (card, series) => {
  const parts = [[]];
  const [full, sampled, plain] = [[], [], []];
  series.curve.y.forEach((value, place) => {
    const at = clockAt(series, place);
    if (at === null) return;
    if (Number.isNaN(value) || (card.log && value <= 0)) { if (parts.at(-1).length) parts.push([]); return; }
    const point = [card.across(at), card.up(value)];
    parts.at(-1).push(point);
    (series.curve.full[place] ? full : series.curve.rows ? sampled : plain).push(point);
  });
  const lone = parts.filter((part) => part.length === 1).map((part) => part[0]);
  const crowd = card.list.length > 12;
  const width = crowd ? 1.4 : 2;
  const few = (points, most) => points.length <= most * (card.W > 500 ? 2 : 1) && card.list.length <= 8;
  const dash = series.dash ? `stroke-dasharray="${series.dash}"` : "";
  const hollow = few(sampled, 60) ? dotsOf(sampled) : dotsOf(lone.filter((point) => sampled.includes(point)));
  const solid = few(full, 90) ? dotsOf(full) : dotsOf(lone.filter((point) => full.includes(point)));
  const key = `data-series="${escaped(series.key)}"`;
  return `<g class="series" ${key}>${stroke(parts.map(pathOf).join(""), series.ink, width, dash)}${stroke(hollow, series.ink, 5)}${stroke(hollow, "var(--card)", 2.2)}${stroke(solid, series.ink, 6)}${stroke(few(plain, 40) ? dotsOf(plain) : dotsOf(lone.filter((point) => plain.includes(point))), series.ink, 4.2)}</g>`;
};

const eventsOf = (card) => {
  const drawn = [];
  const tables = new Set(card.list.map((series) => series.table));
  runs.forEach((run, r) => {
    if (!curves.runs.has(r)) return;
    for (const mark of run.marks) {
      const at = run.moments[state.clock][mark.x];
      if (at === null || at === undefined || at < card.x[0] || at > card.x[1]) continue;
      if (!card.own && mark.t >= 0 && !tables.has(run.tables[mark.t].name)) continue;
      const ink = `var(--${mark.level === "error" ? "fail" : mark.level})`;
      drawn.push([card.across(at).toFixed(1), ink, `${run.name}: ${mark.level} at step ${mark.step}: ${mark.text}`]);
    }
  });
  const seen = new Set();
  return drawn.filter(([x, ink]) => !seen.has(x + ink) && seen.add(x + ink)).slice(0, 120)
    .map(([x, ink, words]) => `<path class="mark" d="M${x} ${FRAME.top - 3}l-4 -7h8z" style="fill:${ink}"><title>${escaped(words)}</title></path>`).join("");
};

// what is said beside the drawing
const spoken = (card) => {
  const told = card.list.slice(0, 6).map((series) => {
    const values = [...series.curve.y].filter((value) => !Number.isNaN(value));
    return values.length ? `${series.name} from ${number(values[0])} to ${number(values.at(-1))}` : `${series.name} has no value`;
  });
  return `${titleOf(card)} by ${CLOCKS[state.clock]}: ${told.join("; ")}${card.list.length > 6 ? `; and ${card.list.length - 6} more` : ""}.`;
};
const noted = (card) => {
  const lines = [];
  const gaps = card.list.filter((series) => series.curve.gaps);
  if (gaps.length) {
    const reasons = new Map();
    for (const series of gaps) for (const [, why] of series.curve.gaps) reasons.set(why, (reasons.get(why) ?? 0) + 1);
    const total = [...reasons.values()].reduce((a, b) => a + b, 0);
    const who = gaps.length > 3 ? `${gaps.length} curves` : gaps.map((series) => series.name).join(", ");
    lines.push(`Undefined at ${number(total)} ${total === 1 ? "reading" : "readings"} of ${who}, left out of the line: ${[...reasons].slice(0, 3).map(([why, count]) => `${why}${reasons.size > 1 ? ` (${count})` : ""}`).join("; ")}.`);
  }
  if (card.log) {
    const low = card.list.reduce((sum, series) => sum + [...series.curve.y].filter((value) => value <= 0).length, 0);
    if (low) lines.push(`${number(low)} values of zero or less have no place on a log scale.`);
  }
  const off = card.list.reduce((sum, series) => sum + series.curve.at.length - timesOn(series).places.length, 0);
  if (off) lines.push(`${number(off)} ${off === 1 ? "reading has" : "readings have"} no ${state.clock}, and no place here; along steps ${off === 1 ? "it is" : "they are"} drawn.`);
  const cut = card.list.filter((series) => series.curve.of);
  if (cut.length) lines.push(`Thinned to the extremes of each stretch: ${number(cut[0].curve.y.length)} of ${number(cut[0].curve.of)} readings a curve.`);
  return lines.map((line) => make("p", { class: "gap" }, line));
};
const drawLegend = (card) => {
  const show = card.measures.length > 1;
  const each = card.list.length <= 8 ? card.list : [...new Map(card.list.map((series) => [series.measure, { ink: "var(--null)", dash: series.dash, name: about[series.measure].title }])).values()];
  card.legend.replaceChildren(...(show ? each : []).map((series) => make("li", {}, swatch(series.ink, series.dash), series.name)));
};
const swatch = (ink, dash = "") => {
  const holder = make("span", { class: "swatch", "aria-hidden": "true" });
  holder.innerHTML = `<svg viewBox="0 0 22 10"><line x1="2" x2="20" y1="5" y2="5" stroke-width="3" stroke-linecap="round" ${dash ? `stroke-dasharray="${dash}"` : ""} style="stroke:${ink}"/></svg>`;
  return holder;
};

// the shared cursor
// times of the readings that have one on this clock, and their places
const timesOn = (series) => {
  const held = series.curve.held ??= {};
  if (!held[state.clock]) {
    const places = range(series.curve.at.length).filter((place) => clockAt(series, place) !== null);
    places.sort((one, other) => clockAt(series, one) - clockAt(series, other));
    held[state.clock] = { places, times: places.map((place) => clockAt(series, place)) };
  }
  return held[state.clock];
};
const nearest = (series, at) => {
  const { places, times } = timesOn(series);
  if (!places.length) return [-1, Infinity];
  const near = nearestPlace(times, at);
  return [places[near], Math.abs(times[near] - at)];
};
const valuesAt = (card, at) => card.list.map((series) => {
  const [place, distance] = nearest(series, at);
  return place < 0 || distance > 0.03 * (card.x[1] - card.x[0]) ? null : { series, place, value: series.curve.y[place] };
}).filter(Boolean);
const readout = (card, found) => {
  if (!found.length) return "";
  const focus = found.find((each) => each.series.key === curves.focus);
  const first = focus ?? found[0];
  const moment = momentOf(first.series.run, first.series.curve.at[first.place]);
  const told = (each) => {
    const name = card.list.length > 1 ? `${each.series.name} ` : "";
    if (Number.isNaN(each.value)) return `${name}undefined (${each.series.curve.why.get(each.place) ?? "no value"})`;
    const rows = each.series.curve.rows?.[each.place];
    const how = rows === undefined || rows === null ? "" : each.series.curve.full[each.place] ? " full pass" : ` sample of ${number(rows)}`;
    const own = momentOf(each.series.run, each.series.curve.at[each.place]);
    const late = own === moment ? "" : ` (${clockOf("step", each.series.run.moments.step[each.series.curve.at[each.place]])})`;
    return `${name}${number(each.value)}${about[each.series.measure].unit === "%" ? "%" : ""}${card.list.length > 2 ? "" : how}${late}`;
  };
  const list = focus && found.length > 4 ? [focus] : found.slice(0, 4);
  const rest = found.length - list.length;
  return `${moment}: ${list.map(told).join("   ")}${rest ? `   and ${rest} more` : ""}`;
};
const point = (card, at) => {
  const group = card.svg.querySelector(".cursor");
  if (!group) return;
  const found = at === null || at < card.x[0] || at > card.x[1] ? [] : valuesAt(card, at);
  card.out.textContent = readout(card, found);
  group.setAttribute("visibility", found.length ? "visible" : "hidden");
  if (!found.length) return;
  const x = card.across(at).toFixed(1);
  group.firstChild.setAttribute("x1", x);
  group.firstChild.setAttribute("x2", x);
  const dots = found.length > 12 ? found.filter((each) => each.series.key === curves.focus) : found;
  group.lastChild.innerHTML = dots.filter((each) => !Number.isNaN(each.value) && !(card.log && each.value <= 0))
    .map((each) => `<circle cx="${card.across(clockAt(each.series, each.place)).toFixed(1)}" cy="${card.up(each.value).toFixed(1)}" r="4" stroke-width="1.5" style="fill:${each.series.ink};stroke:var(--card)"/>`).join("");
};
const setCursor = (at) => {
  curves.cursor = at;
  for (const card of cards) if (card.svg?.firstChild) point(card, at);
};
const setFocus = (key) => {
  if (key === curves.focus) return;
  curves.focus = key;
  for (const card of cards) {
    const concerned = key !== null && card.list?.some((series) => series.key === key);
    for (const group of card.svg?.querySelectorAll("g.series") ?? []) {
      group.classList.toggle("dim", concerned && group.dataset.series !== key);
      group.classList.toggle("near", concerned && group.dataset.series === key);
    }
  }
  for (const chip of byId("chips").querySelectorAll("button")) chip.classList.toggle("near", key !== null && key.endsWith(`:${chip.dataset.table}`));
};
const stops = (card) => card.stops ??= [...new Set(card.list.flatMap((series) => timesOn(series).times))].filter((value) => value >= card.x[0] && value <= card.x[1]).sort((a, b) => a - b);
const snapped = (card, at) => stops(card).length ? stops(card)[nearestPlace(stops(card), at)] : null;

// pointer and keys of one chart
const placed = (card, event) => {
  const matrix = card.svg.getScreenCTM();
  if (!matrix) return null;
  const part = ((event.clientX - matrix.e) / matrix.a - FRAME.left) / (card.W - FRAME.left - FRAME.right);
  return { at: card.x[0] + Math.min(Math.max(part, 0), 1) * (card.x[1] - card.x[0]), y: (event.clientY - matrix.f) / matrix.d };
};
const closest = (card, at, y) => {
  let [best, distance] = [null, 40];
  for (const { series, value } of valuesAt(card, at)) {
    const away = Math.abs(card.up(value) - y);
    if (away < distance) [best, distance] = [series.key, away];
  }
  return best;
};
const listen = (card) => {
  let from = null;
  const zone = (to) => {
    const rect = card.svg.querySelector(".zone");
    const [a, b] = [from, to].map(card.across).sort((one, other) => one - other);
    rect.setAttribute("x", a.toFixed(1));
    rect.setAttribute("width", (b - a).toFixed(1));
    rect.setAttribute("visibility", "visible");
    return b - a > 6;
  };
  card.svg.addEventListener("pointerdown", (event) => { if (event.button === 0) from = placed(card, event)?.at ?? null; });
  card.svg.addEventListener("pointermove", (event) => {
    const place = placed(card, event);
    if (!place || card.empty) return;
    if (from !== null && event.buttons) zone(place.at);
    const at = snapped(card, place.at);
    if (card.list.length > 1) setFocus(closest(card, at, place.y));
    setCursor(at);
  });
  card.svg.addEventListener("pointerup", (event) => {
    const place = placed(card, event);
    if (from !== null && place && zone(place.at)) setZoom([from, place.at].sort((a, b) => a - b));
    else card.svg.querySelector(".zone").setAttribute("visibility", "hidden");
    from = null;
  });
  card.svg.addEventListener("pointerleave", () => { from = null; setCursor(null); setFocus(null); card.svg.querySelector(".zone").setAttribute("visibility", "hidden"); });
  card.svg.addEventListener("dblclick", () => setZoom(null));
  card.svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
    const list = stops(card);
    if (step !== undefined && list.length) {
      const now = curves.cursor === null ? (step < 0 ? list.length : -1) : list.indexOf(snapped(card, curves.cursor));
      setCursor(list[Math.min(Math.max(now + step, 0), list.length - 1)]);
    } else if (event.key === "+" || event.key === "-") {
      const middle = curves.cursor ?? (card.x[0] + card.x[1]) / 2;
      const half = (card.x[1] - card.x[0]) * (event.key === "+" ? 0.25 : 1);
      setZoom([middle - half, middle + half]);
    } else if (event.key === "0" || event.key === "Escape") setZoom(null);
    else return;
    event.preventDefault();
  });
};

const setZoom = (to) => {
  const [low, high] = wholeRange();
  const kept = to && [Math.max(to[0], low), Math.min(to[1], high)];
  curves.zoom = kept && kept[1] - kept[0] > (high - low) * 1e-6 && kept[1] - kept[0] < (high - low) * 0.999 ? kept : null;
  byId("unzoom").disabled = !curves.zoom;
  drawCharts();
};
const drawCharts = () => {
  for (const card of cards) draw(card);
  const focus = curves.focus;
  curves.focus = undefined;
  setFocus(focus ?? null);
  setCursor(curves.cursor);
};

// the numbers behind a chart
const tableOf = (card) => {
  const list = card.list.slice(0, 12);
  const places = [...new Set(list.flatMap((series) => series.curve.at.map((moment) => series.run.moments.step[moment])))].sort((a, b) => a - b);
  const kept = thinned(places.length, 100).map((place) => places[place]);
  const held = list.map((series) => new Map(series.curve.at.map((moment, place) => [series.run.moments.step[moment], place])));
  const epochs = new Map(list.flatMap((series) => series.curve.at.map((moment) => [series.run.moments.step[moment], series.run.moments.epoch[moment]])));
  const told = (series, place) => {
    if (place === undefined) return "";
    if (Number.isNaN(series.curve.y[place])) return `undefined: ${series.curve.why.get(place) ?? "no value"}`;
    const sampled = series.curve.rows && !series.curve.full[place];
    return number(series.curve.y[place], 6) + (sampled ? " ○" : "");
  };
  const notes = [card.list.some((series) => series.curve.rows && series.curve.full.includes(0)) ? "○ read from a sample." : "", kept.length < places.length ? `${kept.length} of ${number(places.length)} readings; CSV has all.` : "", list.length < card.list.length ? `${list.length} of ${card.list.length} curves; CSV has all.` : ""];
  return {
    head: ["step", ...(hasClock("epoch") ? ["epoch"] : []), ...list.map((series) => series.name)],
    rows: kept.map((step) => [number(step), ...(hasClock("epoch") ? [number(epochs.get(step))] : []), ...list.map((series, place) => told(series, held[place].get(step)))]),
    note: notes.filter(Boolean).join(" "),
  };
};
const csvOf = (card) => card.list.flatMap((series) => [...series.curve.y].map((value, place) => {
  const [moments, at] = [series.run.moments, series.curve.at[place]];
  return [series.run.name, series.table, series.measure, moments.step[at], moments.epoch[at], moments.samples[at], moments.time[at], exact(value),
    series.curve.rows?.[place], series.curve.rows ? (series.curve.full[place] ? "full" : "sample") : "", series.curve.why.get(place)];
}));
const CSV_HEAD = ["run", "table", "measure", "step", "epoch", "samples", "seconds", "value", "rows", "pass", "undefined"];

// title and legend of a drawing that stands alone
const toldOf = (card) => ({ title: titleOf(card), legend: card.list.length > 1 ? card.list.slice(0, 24).map((series) => [series.ink, series.dash, series.name]) : [] });

// building the panel
const build = (card) => {
  card.svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ role: "img", tabindex: "0", class: "chart" })) card.svg.setAttribute(name, value);
  // only the chart that has the focus speaks
  card.out = make("output", { class: "readout", "aria-live": "off" });
  card.svg.addEventListener("focus", () => card.out.setAttribute("aria-live", "polite"));
  card.svg.addEventListener("blur", () => card.out.setAttribute("aria-live", "off"));
  card.note = make("div", {});
  card.legend = make("ul", { class: "legend" });
  card.table = numbers(() => tableOf(card));
  const name = card.measures.join("-");
  const measure = about[card.measures[0]];
  const arrow = !(card.own && card.measures.length > 1) && measure.better ? make("span", { class: "arrow", title: `${measure.better} is better` }, measure.better === "higher" ? " ↑" : " ↓", make("span", { class: "sr" }, ` ${measure.better} is better`)) : "";
  const log = pill("log", false, () => { curves.log.has(card.key) ? curves.log.delete(card.key) : curves.log.add(card.key); press(log, curves.log.has(card.key)); draw(card); }, { class: "quiet mini", "aria-label": "Logarithmic scale" });
  const wide = pill("⤢", false, () => { curves.wide.has(card.key) ? curves.wide.delete(card.key) : curves.wide.add(card.key); const on = curves.wide.has(card.key); press(wide, on); card.figure.classList.toggle("wide", on); draw(card); }, { class: "quiet mini", "aria-label": "Larger" });
  const tools = make("div", { class: "tools" }, log, wide, savers({ SVG: () => saveSvg(name, card.svg, toldOf(card)), PNG: () => saveSvgAsPng(name, card.svg, toldOf(card)), CSV: () => saveCsv(name, CSV_HEAD, csvOf(card)) }));
  card.figure = make("figure", { class: "curve", "data-card": card.key }, make("figcaption", {}, make("h3", { title: card.measures.join(", ") }, titleOf(card), arrow), make("p", {}, card.own && card.measures.length > 1 ? "Lower is better." : measure.about)), card.legend, card.svg, card.out, card.note, make("div", { class: "under" }, card.table, tools));
  listen(card);
  return card.figure;
};
const chooseTable = (name, only) => {
  if (only) curves.tables = new Set([name]);
  else if (curves.tables.has(name)) curves.tables.delete(name);
  else curves.tables.add(name);
  curves.tables = new Set(tableNames.filter((each) => curves.tables.has(each)));
  drawChips();
  drawCharts();
};
const drawChips = () => {
  const wanted = tableNames.filter((name) => name.toLowerCase().includes(curves.find.toLowerCase()));
  byId("chips").replaceChildren(...wanted.map((name) => {
    const ink = many ? "var(--null)" : inkOf(tableNames.indexOf(name), tableNames.length);
    const chip = pill("", curves.tables.has(name), (event) => chooseTable(name, event.altKey || event.shiftKey), { class: "quiet chip", "data-table": name, title: "Double click: this one only" });
    const dash = many && curves.tables.has(name) && curves.tables.size > 1 ? DASHES[[...curves.tables].indexOf(name) % DASHES.length] : "";
    chip.append(swatch(ink, dash), name);
    chip.addEventListener("dblclick", () => chooseTable(name, true));
    chip.addEventListener("pointerenter", () => setFocus(curves.tables.has(name) && !many ? `0:${name}` : null));
    chip.addEventListener("pointerleave", () => setFocus(null));
    return chip;
  }));
  byId("chosen").textContent = tableNames.length > 4 ? `${curves.tables.size} of ${tableNames.length} tables` : "";
};
const drawRunChips = () => byId("run-chips").replaceChildren(...(many ? runs : []).map((run, r) => {
  const chip = pill("", curves.runs.has(r), () => {
    curves.runs.has(r) && curves.runs.size > 1 ? curves.runs.delete(r) : curves.runs.add(r);
    drawRunChips();
    drawCharts();
  }, { class: "quiet chip" });
  chip.append(swatch(inkOf(r, runs.length)), run.name);
  return chip;
}));
const setClock = (kind) => {
  state.clock = kind;
  curves.zoom = null;
  curves.cursor = null;
  byId("unzoom").disabled = true;
  redraw();
};

panels.curves = {
  start() {
    curves.tables = new Set(many && tableNames.length > 2 ? tableNames.slice(0, 1) : tableNames);
    byId("clocks").append(...clocks.map((kind) => {
      const input = make("input", { type: "radio", name: "clock", value: kind, id: `clock-${kind}`, checked: kind === state.clock });
      input.addEventListener("change", () => setClock(kind));
      return make("label", {}, input, make("span", {}, kind));
    }));
    byId("unzoom").addEventListener("click", () => setZoom(null));
    byId("all-tables").addEventListener("click", () => { curves.tables = new Set(tableNames); drawChips(); drawCharts(); });
    byId("no-tables").addEventListener("click", () => { curves.tables = new Set(); drawChips(); drawCharts(); });
    byId("find").addEventListener("input", (event) => { curves.find = event.target.value; drawChips(); });
    byId("table-tools").hidden = tableNames.length < 3;
    byId("find").hidden = tableNames.length < 13;
    drawRunChips();
    drawChips();
    byId("charts").append(...cards.map(build));
  },
  draw: drawCharts,
};
shown.curves = () => ({ clock: state.clock, zoom: curves.zoom, cursor: curves.cursor, tables: [...curves.tables], cards: cards.map((card) => ({ key: card.key, x: card.x, y: card.y, log: card.log, series: (card.list ?? []).map((series) => ({ name: series.name, values: [...series.curve.y].map(exact), full: series.curve.full })) })) });
