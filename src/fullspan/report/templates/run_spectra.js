// Singular values through time: a heat map of one table, or of all tables at one moment, and the spectrum beside it.
const HEAT = { W: 920, H: 380, left: 58, right: 96, top: 14, bottom: 42 };
// on a phone the drawing is narrower, so that its text stays readable
const layHeat = () => {
  const narrow = byId("heat").parentElement.clientWidth < 560 && byId("heat").parentElement.clientWidth > 0;
  Object.assign(HEAT, narrow ? { W: 480, right: 84 } : { W: 920, right: 96 });
  const { style } = byId("heat");
  byId("heat").parentElement.style.aspectRatio = `${HEAT.W} / ${HEAT.H}`;
  style.left = `${100 * HEAT.left / HEAT.W}%`;
  style.top = `${100 * HEAT.top / HEAT.H}%`;
  style.width = `${100 * (HEAT.W - HEAT.left - HEAT.right) / HEAT.W}%`;
  style.height = `${100 * (HEAT.H - HEAT.top - HEAT.bottom) / HEAT.H}%`;
};
const heat = { choice: null, at: 0, rank: 0, log: true, relative: true, cell: null };
const spectraList = runs.flatMap((run, r) => run.spectra.map((one) => ({ run, r, one, table: run.tables[one.t].name })));

const spectrum = (one) => {
  if (!one.rows) {
    const codes = words16(one.v);
    const count = one.ranks.length;
    one.rows = range(codes.length / count).map((place) => Float64Array.from(codes.subarray(place * count, (place + 1) * count), (code) => code === 65535 ? NaN : Math.exp(one.low + (one.high - one.low) * code / 65534)));
    for (const [place, rank] of one.zeros) one.rows[place][rank] = 0;
  }
  return one.rows;
};
const relativeTo = (row) => heat.relative ? row[0] || NaN : 1;
const shareOf = (value, low, high) => heat.log ? Math.log(value / low) / Math.log(high / low) : value / high;
const boundsOf = (rows) => {
  let [low, high] = [Infinity, 0];
  for (const row of rows) for (const value of row) {
    const shown = value / relativeTo(row);
    if (shown > 0) [low, high] = [Math.min(low, shown), Math.max(high, shown)];
  }
  if (!(high > 0)) return [0.1, 1];
  if (!heat.log) return [0, high];
  return [Math.max(Math.min(low, high / 10), high * 1e-8), high];
};

// what is across, what is down, and the rows of values
const scene = () => {
  if (heat.choice.all) {
    const list = spectraList.filter((each) => each.r === heat.choice.r);
    const step = heat.choice.steps[heat.at];
    const rows = list.map(({ run, one }) => {
      const places = run.axes[one.x].map((moment) => run.moments.step[moment]);
      const place = places.reduce((best, at, index) => at <= step ? index : best, -1);
      return place < 0 ? new Float64Array(one.ranks.length).fill(NaN) : spectrum(one)[place];
    });
    return { rows, names: list.map((each) => each.table), ranks: list.reduce((longest, { one }) => one.ranks.length > longest.length ? one.ranks : longest, []), run: heat.choice.run };
  }
  const { run, one } = heat.choice;
  return { rows: spectrum(one), ranks: one.ranks, run, moments: run.axes[one.x] };
};
const timesOf = (run, moments) => {
  const times = moments.map((moment) => run.moments[state.clock][moment]);
  return times.every((value) => value !== null) ? times : moments.map((moment) => run.moments.step[moment]);
};

const drawHeat = () => {
  layHeat();
  const view = heat.view = scene();
  const all = heat.view.names;
  const [low, high] = heat.bounds = boundsOf(heat.choice.all ? heat.choice.whole() : view.rows);
  const box = [HEAT.left, HEAT.top, HEAT.W - HEAT.right - HEAT.left, HEAT.H - HEAT.bottom - HEAT.top];
  const canvas = byId("heat");
  const count = view.ranks.length;
  if (all) [view.width, view.height] = [count, view.rows.length];
  else {
    view.times = timesOf(view.run, view.moments);
    view.width = view.times.length > 1 ? Math.min(1400, Math.max(700, view.times.length)) : 1;
    view.height = count;
    view.column = range(view.width).map((x) => {
      const at = view.times[0] + (view.times.at(-1) - view.times[0]) * (view.width > 1 ? x / (view.width - 1) : 0);
      return nearestPlace(view.times, at);
    });
  }
  [canvas.width, canvas.height] = [view.width, view.height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(view.width, view.height);
  for (let y = 0; y < view.height; y++) for (let x = 0; x < view.width; x++) {
    const [row, rank] = all ? [view.rows[y], x] : [view.rows[view.column[x]], y];
    const value = row[rank] / relativeTo(row);
    const at = 4 * (y * view.width + x);
    if (!(value >= 0) || (heat.log && value === 0)) continue;
    const code = Math.round(255 * Math.min(Math.max(shareOf(value, low, high), 0), 1));
    image.data.set([...viridis[code], 255], at);
  }
  context.putImageData(image, 0, 0);
  canvas.setAttribute("aria-label", `Heat map of ${all ? `${view.height} tables at step ${counted(heat.choice.steps[heat.at])}` : `${view.rows.length} readings`} by ${count} singular values.`);
  drawHeatAxes(view, box, low, high);
  drawSpectrum(view);
  byId("heat-numbers").firstChild?.refresh();
};
const heatX = (view, place) => {
  const width = HEAT.W - HEAT.right - HEAT.left;
  return HEAT.left + (view.times.length > 1 ? width * (view.times[place] - view.times[0]) / (view.times.at(-1) - view.times[0]) : width / 2);
};
const drawHeatAxes = (view, [left, top, width, height], low, high) => {
  const parts = [];
  const base = top + height;
  if (view.names) {
    const each = height / view.names.length;
    const most = Math.max(1, Math.ceil(11 / each));
    view.names.forEach((name, place) => { if (place % most === 0) parts.push(text(left - 6, top + each * (place + 0.5) + 4, name.length > 9 ? `…${name.slice(-8)}` : name, { anchor: "end", size: Math.min(11, Math.max(8, each)) })); });
    for (const place of thinned(view.ranks.length, 10)) parts.push(text(left + width * (place + 0.5) / view.ranks.length, base + 17, number(view.ranks[place]), { anchor: "middle" }));
    parts.push(text(left + width / 2, HEAT.H - 5, "rank of the singular value", { anchor: "middle" }));
  } else {
    for (const place of thinned(view.ranks.length, 8)) parts.push(text(left - 7, top + height * (place + 0.5) / view.ranks.length + 4, number(view.ranks[place]), { anchor: "end" }));
    const across = scale(view.times[0], view.times.at(-1), left, left + width);
    for (const [at, words] of ticks(view.times[0], view.times.at(-1), { time: state.clock === "time", most: HEAT.W > 500 ? 9 : 5 })) parts.push(`<line x1="${across(at)}" x2="${across(at)}" y1="${base}" y2="${base + 4}" style="stroke:var(--null)"/>`, text(across(at), base + 17, words, { anchor: "middle" }));
    parts.push(text(left + width / 2, HEAT.H - 5, CLOCKS[state.clock], { anchor: "middle" }));
    const x = heatX(view, heat.at);
    parts.push(`<g class="cursor"><line x1="${x}" x2="${x}" y1="${top}" y2="${base}" stroke-width="3" style="stroke:var(--card)" opacity=".65"/><line x1="${x}" x2="${x}" y1="${top - 4}" y2="${base + 5}" stroke-width="1.3" style="stroke:var(--ink)"/></g>`);
  }
  const bar = { x: left + width + 22, w: 13 };
  for (const part of range(64)) parts.push(`<rect x="${bar.x}" y="${(top + height * (1 - (part + 1) / 64)).toFixed(1)}" width="${bar.w}" height="${(height / 64 + 0.6).toFixed(1)}" fill="${hex(viridis[Math.round(part / 63 * 255)])}"/>`);
  const up = scale(heat.log ? low : 0, high, base, top, heat.log);
  for (const [at, words] of ticks(heat.log ? low : 0, high, { log: heat.log })) parts.push(text(bar.x + bar.w + 6, Math.min(Math.max(up(at) + 4, top + 8), base), words));
  parts.push(`<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="none" style="stroke:var(--line)"/>`);
  const svg = byId("heat-axes");
  svg.setAttribute("viewBox", `0 0 ${HEAT.W} ${HEAT.H}`);
  svg.innerHTML = parts.join("");
};

// the spectrum at the chosen moment, with the first and the last one behind it
const drawSpectrum = (view) => {
  const [W, H] = [440, 262];
  const svg = byId("spectrum");
  const place = view.names ? Math.min(heat.rank, view.rows.length - 1) : heat.at;
  const lines = view.names ? [[view.names[place], view.rows[place], "var(--a)", 2.4, ""]]
    : [["first", view.rows[0], "var(--null)", 1.7, "6 4"], ["last", view.rows.at(-1), "var(--b)", 1.8, "1 4.5"], ["at the cursor", view.rows[place], "var(--a)", 2.4, ""]];
  const shown = lines.map(([name, row, ...look]) => [name, [...row].map((value) => value / relativeTo(row)), ...look]);
  const values = shown.flatMap(([, row]) => row).filter((value) => value > 0);
  const [y0, y1] = heat.log ? padded(extent(values), true) : [0, (values.length ? Math.max(...values) : 1) * 1.05];
  const last = Math.max(2, view.ranks.at(-1) ?? 2);
  const across = scale(1, last, FRAME.left, W - FRAME.right);
  const up = scale(y0, y1, H - FRAME.bottom, FRAME.top, heat.log);
  const base = H - FRAME.bottom;
  const marks = ticks(y0, y1, { log: heat.log }).map(([at, words]) => `<line x1="${FRAME.left}" x2="${W - FRAME.right}" y1="${up(at)}" y2="${up(at)}" style="stroke:var(--faint)"/>${text(FRAME.left - 7, up(at) + 4, words, { anchor: "end" })}`);
  for (const [at, words] of ticks(1, last, { whole: true })) marks.push(text(across(at), base + 17, words, { anchor: "middle" }));
  const drawn = shown.map(([, row, ink, width, dash]) => {
    const points = row.map((value, rank) => [across(view.ranks[rank]), value > 0 || !heat.log ? up(value) : NaN]).filter(([, y]) => Number.isFinite(y));
    return stroke(pathOf(points), ink, width, dash ? `stroke-dasharray="${dash}"` : "") + (points.length === 1 ? stroke(dotsOf(points), ink, 6) : "");
  });
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.innerHTML = `${marks.join("")}<line x1="${FRAME.left}" x2="${W - FRAME.right}" y1="${base}" y2="${base}" style="stroke:var(--null)"/>${text(W / 2 + 20, H - 6, "rank", { anchor: "middle" })}${text(4, 13, heat.relative ? "σ over the largest" : "singular value")}${drawn.join("")}`;
  svg.setAttribute("aria-label", `Spectrum of ${heat.choice.table ?? view.names[place]}, from ${number(shown.at(-1)[1][0])} down to ${number(shown.at(-1)[1].at(-1))}.`);
  byId("spectrum-legend").replaceChildren(...shown.map(([name, , ink, , dash]) => make("li", {}, swatch(ink, dash), name)));
  heat.lines = shown;
  byId("spectrum-numbers").firstChild?.refresh();
  byId("heat-when").textContent = view.names ? `step ${counted(heat.choice.steps[heat.at])}` : momentOf(view.run, view.moments[heat.at]);
  readHeat();
};
const readHeat = () => {
  const view = heat.view;
  const row = view.names ? view.rows[Math.min(heat.rank, view.rows.length - 1)] : view.rows[heat.at];
  const rank = view.names ? heat.cell ?? 0 : Math.min(heat.rank, row.length - 1);
  const value = row[rank];
  const where = view.names ? `${view.names[Math.min(heat.rank, view.rows.length - 1)]}, ` : "";
  const what = Number.isNaN(value) || value === undefined ? "undefined" : `${number(value)}${rank ? `, ${number(value / row[0], 3)} of the largest` : ""}`;
  byId("heat-out").textContent = `${byId("heat-when").textContent}, ${where}singular value ${view.ranks[rank] ?? ""}: ${what}`;
};

const chooseSpectra = (value) => {
  const [kind, place] = value.split(":");
  if (kind === "all") {
    const run = runs[place];
    const list = spectraList.filter((each) => each.r === Number(place));
    const steps = [...new Set(list.flatMap(({ one }) => run.axes[one.x].map((moment) => run.moments.step[moment])))].sort((a, b) => a - b);
    heat.choice = { all: true, r: Number(place), run, steps, whole: () => list.flatMap(({ one }) => spectrum(one)) };
  } else heat.choice = spectraList[place];
  const count = heat.choice.all ? heat.choice.steps.length : spectrum(heat.choice.one).length;
  const slider = byId("heat-slider");
  slider.max = count - 1;
  slider.disabled = count < 2;
  heat.at = count - 1;
  slider.value = heat.at;
  byId("heat-hint").textContent = heat.choice.all ? "A row a table, a column a singular value: rows that fade early use few directions." : `A column a reading, a row a singular value, the largest on top. Rows that darken with time are directions that the table gives up.${heat.choice.one.seen > count ? ` ${count} of ${number(heat.choice.one.seen)} readings.` : ""}${heat.choice.one.of > heat.choice.one.ranks.length ? ` ${heat.choice.one.ranks.length} of ${heat.choice.one.of} ranks.` : ""}`;
};
const heatAt = (event) => {
  const box = byId("heat").getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((part) => Math.min(Math.max(part, 0), 0.9999));
  const view = heat.view;
  if (view.names) [heat.cell, heat.rank] = [Math.floor(x * view.ranks.length), Math.floor(y * view.rows.length)];
  else {
    heat.rank = Math.floor(y * view.ranks.length);
    moveHeat(view.column[Math.floor(x * view.width)]);
  }
  if (view.names) drawSpectrum(view); else readHeat();
};
const moveHeat = (place) => {
  const to = Math.min(Math.max(place, 0), Number(byId("heat-slider").max));
  if (to === heat.at) return;
  heat.at = to;
  byId("heat-slider").value = to;
  if (heat.choice.all) return drawHeat();
  drawHeatAxes(heat.view, [HEAT.left, HEAT.top, HEAT.W - HEAT.right - HEAT.left, HEAT.H - HEAT.bottom - HEAT.top], ...heat.bounds);
  drawSpectrum(heat.view);
};
const heatName = () => `singular-values-${heat.choice.all ? "all-tables" : heat.choice.table}`;
const heatSvg = () => {
  const svg = byId("heat-axes").cloneNode(true);
  const image = document.createElementNS(SVG, "image");
  const [width, height] = [HEAT.W - HEAT.right - HEAT.left, HEAT.H - HEAT.bottom - HEAT.top];
  for (const [name, value] of Object.entries({ x: HEAT.left, y: HEAT.top, width, height, preserveAspectRatio: "none", href: byId("heat").toDataURL(), style: "image-rendering:pixelated" })) image.setAttribute(name, value);
  svg.prepend(image);
  return svg;
};
const heatTold = () => ({ title: heat.choice.all ? `Singular values of all tables, ${byId("heat-when").textContent}` : `Singular values of ${heat.choice.table}` });
const heatCsv = () => {
  const list = heat.choice.all ? spectraList.filter((each) => each.r === heat.choice.r) : [heat.choice];
  return list.flatMap(({ run, one, table }) => spectrum(one).flatMap((row, place) => {
    const moment = run.axes[one.x][place];
    return [...row].map((value, rank) => [run.name, table, run.moments.step[moment], run.moments.epoch[moment], one.ranks[rank], Number.isNaN(value) ? null : Number(value.toPrecision(4))]);
  }));
};
const heatTable = () => {
  const view = heat.view;
  const ranks = thinned(view.ranks.length, 12);
  const places = thinned(view.rows.length, 60);
  return {
    head: [view.names ? "table" : "step", ...ranks.map((rank) => `σ${view.ranks[rank]}`)],
    rows: places.map((place) => [view.names ? view.names[place] : counted(view.run.moments.step[view.moments[place]]), ...ranks.map((rank) => number(view.rows[place][rank] ?? NaN))]),
    note: `Singular values as they are, to four digits.${places.length < view.rows.length || ranks.length < view.ranks.length ? " CSV has all." : ""}`,
  };
};

const spectrumTold = () => ({ title: `${heat.choice.table ?? "Spectrum"}, ${byId("heat-when").textContent}`, legend: heat.lines.map(([name, , ink, , dash]) => [ink, dash, name]) });
const spectrumTable = () => ({
  head: ["rank", ...heat.lines.map(([name]) => name)],
  rows: thinned(heat.view.ranks.length, 64).map((rank) => [number(heat.view.ranks[rank]), ...heat.lines.map(([, row]) => number(row[rank] ?? NaN))]),
  note: heat.relative ? "Over the largest of each reading." : "",
});
const spectrumCsv = () => heat.view.ranks.map((rank, place) => [rank, ...heat.lines.map(([, row]) => row[place] === undefined || Number.isNaN(row[place]) ? null : Number(row[place].toPrecision(4)))]);

panels.spectra = {
  start() {
    const select = byId("heat-choice");
    runs.forEach((run, r) => {
      const list = spectraList.filter((each) => each.r === r);
      if (list.length > 1) select.append(make("option", { value: `all:${r}` }, `${many ? `${run.name}: ` : ""}all ${list.length} tables, at one moment`));
    });
    spectraList.forEach((each, place) => select.append(make("option", { value: `one:${place}`, selected: place === 0 }, many ? `${each.run.name}: ${each.table}` : each.table)));
    select.addEventListener("change", () => { chooseSpectra(select.value); drawHeat(); });
    const toggle = (id, key) => byId(id).addEventListener("click", (event) => { heat[key] = !heat[key]; press(event.currentTarget, heat[key]); drawHeat(); });
    toggle("heat-log", "log");
    toggle("heat-relative", "relative");
    byId("heat-slider").addEventListener("input", (event) => moveHeat(Number(event.target.value)));
    const canvas = byId("heat");
    canvas.addEventListener("pointermove", heatAt);
    canvas.addEventListener("pointerdown", heatAt);
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1], Home: [-1e9, 0], End: [1e9, 0], PageUp: [-10, 0], PageDown: [10, 0] }[event.key];
      if (!move) return;
      event.preventDefault();
      heat.rank = Math.min(Math.max(heat.rank + move[1], 0), (heat.view.names ? heat.view.rows.length : heat.view.ranks.length) - 1);
      moveHeat(heat.at + move[0]);
      if (heat.view.names) drawSpectrum(heat.view); else readHeat();
    });
    byId("heat-numbers").append(numbers(heatTable));
    byId("heat-tools").append(savers({ SVG: () => saveSvg(heatName(), heatSvg(), heatTold()), PNG: () => saveSvgAsPng(heatName(), heatSvg(), heatTold()), CSV: () => saveCsv(heatName(), ["run", "table", "step", "epoch", "rank", "singular_value"], heatCsv()) }));
    byId("spectrum-tools").append(savers({ SVG: () => saveSvg(`spectrum-${heatName()}`, byId("spectrum"), spectrumTold()), PNG: () => saveSvgAsPng(`spectrum-${heatName()}`, byId("spectrum"), spectrumTold()), CSV: () => saveCsv(`spectrum-${heatName()}`, ["rank", ...heat.lines.map(([name]) => name)], spectrumCsv()) }));
    byId("spectrum-numbers").append(numbers(spectrumTable));
    addEventListener("resize", () => { if (!byId("spectra").hidden) drawHeat(); });
    chooseSpectra(select.value);
  },
  draw: drawHeat,
};
shown.spectra = () => heat.view ? { at: heat.at, rank: heat.rank, log: heat.log, relative: heat.relative, bounds: heat.bounds, readings: heat.view.rows.length, ranks: heat.view.ranks, row: [...heat.view.rows[heat.choice.all ? 0 : heat.at]] } : null;
