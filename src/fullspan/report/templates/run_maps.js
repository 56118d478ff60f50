// Maps: the same rows in every frame, moved by a slider or played.
const maps = runs.flatMap((run, r) => run.maps.map((map) => ({ ...map, run, r })));
const map = { chosen: null, at: 0, color: 0, playing: null, speed: 1, drawn: [] };
const FRAME_MS = 650;
const LABELS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#bcbd22", "#17becf", "#3f4788", "#ffb55a", "#78c679", "#f768a1", "#a6761d", "#66c2a5", "#c51b7d", "#80b1d3", "#b3de69", "#fb8072", "#6a51a3"];
const GRAY = [138, 142, 146];

const unpacked = (one) => {
  if (!one.xy) {
    one.xy = words16(one.at.v);
    one.rows = one.ids.words ?? words32(one.ids.v);
    one.shades = one.colors.map((color) => bytes(color.v));
    // one scale for both axes, so that distances are what they are
    const wide = Math.max(...one.at.span);
    one.fit = one.at.span.map((span) => span / wide);
  }
  return one;
};
// place of a point at a fractional frame, in [0, 1] on a square
const placeOf = (one, frame, point) => {
  const [before, part] = [Math.floor(frame), frame % 1];
  const at = 2 * (before * one.points + point);
  const next = part ? 2 * ((before + 1) * one.points + point) : at;
  if (one.xy[at] === 65535 || one.xy[next] === 65535) return null;
  return [0, 1].map((axis) => 0.5 + one.fit[axis] * ((one.xy[at + axis] * (1 - part) + one.xy[next + axis] * part) / 65534 - 0.5));
};
const rgbOf = (color, code) => {
  if (!color) return [31, 111, 178];
  if (code === 255) return GRAY;
  return color.kind === "label" ? mixed([LABELS[code % LABELS.length], LABELS[code % LABELS.length]], 0) : viridis[Math.min(255, Math.round(code * 255 / 254))];
};
const valueOf = (color, code) => code === 255 ? (color.kind === "label" ? "other" : "undefined") : color.kind === "label" ? color.labels[code][0] : number(color.low + (color.high - color.low) * code / 254, color.ordinal ? 4 : 3);

const drawMap = () => {
  const one = unpacked(map.chosen);
  const canvas = byId("map");
  const ratio = Math.max(1, Math.min(2, devicePixelRatio || 1));
  const side = Math.round(Math.max(240, canvas.parentElement.clientWidth || 640) * ratio);
  if (canvas.width !== side) [canvas.width, canvas.height] = [side, side];
  const context = canvas.getContext("2d");
  context.fillStyle = computed("var(--card)");
  context.fillRect(0, 0, side, side);
  const room = 0.04 * side;
  const radius = ratio * Math.max(1.35, Math.min(4, side / ratio / Math.sqrt(one.points) / 9));
  map.drawn = [];
  const color = one.colors[map.color];
  const shades = one.shades[map.color];
  const groups = new Map();
  for (let point = 0; point < one.points; point++) {
    const place = placeOf(one, map.at, point);
    if (!place) { map.drawn.push(null); continue; }
    const [x, y] = [room + place[0] * (side - 2 * room), room + (1 - place[1]) * (side - 2 * room)];
    map.drawn.push([x, y]);
    const code = shades ? shades[point] : 0;
    if (!groups.has(code)) groups.set(code, []);
    groups.get(code).push([x, y]);
  }
  context.globalAlpha = one.points > 2500 ? 0.8 : 0.9;
  // what has no label lies below
  for (const [code, points] of [...groups].sort((a, b) => (b[0] === 255) - (a[0] === 255) || a[0] - b[0])) {
    context.fillStyle = hex(rgbOf(color, code));
    context.beginPath();
    for (const [x, y] of points) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 7);
    }
    context.fill();
  }
  context.globalAlpha = 1;
  map.side = side;
  map.radius = radius;
  tellFrame(one);
};
const tellFrame = (one) => {
  const frame = Math.round(map.at);
  const epoch = one.epochs[frame];
  const when = [epoch === null ? null : clockOf("epoch", epoch), `step ${counted(one.steps[frame])}`].filter(Boolean).join(" · ");
  byId("map-when").textContent = when;
  const slider = byId("map-slider");
  slider.value = frame;
  slider.setAttribute("aria-valuetext", `${when}, frame ${frame + 1} of ${one.frames}`);
  const facts = [];
  if (one.preservation[frame] !== null) facts.push(`${number(100 * one.preservation[frame], 3)}% of nearest neighbors kept`);
  if (one.displacement[frame] !== null && frame) facts.push(`median move since the last frame ${number(one.displacement[frame], 3)} of the spread`);
  byId("map-facts").textContent = facts.join(" · ");
  byId("map").setAttribute("aria-label", `Map of ${number(one.points)} rows of ${one.table} by ${one.method}, ${when}.`);
};
const drawMapLegend = () => {
  const one = unpacked(map.chosen);
  const color = one.colors[map.color];
  const legend = byId("map-legend");
  legend.replaceChildren();
  if (!color) return;
  if (color.kind === "label") {
    const chips = color.labels.map(([name, count], code) => make("li", {}, dot(LABELS[code % LABELS.length]), `${name} `, make("small", {}, number(count))));
    if (color.rest) chips.push(make("li", {}, dot(hex(GRAY)), "other ", make("small", {}, number(color.rest))));
    legend.append(make("ul", { class: "legend" }, ...chips));
    return;
  }
  const bar = make("canvas", { width: 255, height: 1, class: "bar", "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (const code of range(255)) { context.fillStyle = hex(rgbOf(color, code)); context.fillRect(code, 0, 1, 1); }
  const ends = [color.least < color.low ? `≤ ${number(color.low, 3)}` : number(color.low, 3), color.most > color.high ? `≥ ${number(color.high, 3)}` : number(color.high, 3)];
  legend.append(make("div", { class: "shade" }, make("span", {}, ends[0]), bar, make("span", {}, ends[1])));
};
const dot = (ink) => {
  const holder = make("span", { class: "dotted", "aria-hidden": "true" });
  holder.style.background = ink;
  return holder;
};

const showFrame = (at) => {
  map.at = Math.min(Math.max(at, 0), map.chosen.frames - 1);
  byId("map-out").textContent = "";
  drawMap();
};
const stop = () => {
  if (map.playing !== null) cancelAnimationFrame(map.playing);
  map.playing = null;
  const button = byId("map-play");
  button.textContent = "▶ Play";
  press(button, false);
};
const play = () => {
  if (map.playing !== null) { stop(); showFrame(Math.round(map.at)); return; }
  if (map.chosen.frames < 2) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (map.at >= map.chosen.frames - 1) map.at = 0;
  const button = byId("map-play");
  button.textContent = "❚❚ Pause";
  press(button, true);
  let [last, place] = [performance.now(), map.at];
  const tick = (now) => {
    place += Math.max(now - last, 0) * map.speed / FRAME_MS;
    last = now;
    const end = map.chosen.frames - 1;
    const at = still ? Math.floor(place) : eased(Math.min(place, end));
    if (at !== map.at) showFrame(Math.min(at, end));
    if (place >= end) { stop(); showFrame(end); return; }
    map.playing = requestAnimationFrame(tick);
  };
  map.playing = requestAnimationFrame(tick);
};
// rests at each frame, moves between them
const eased = (place) => {
  const part = place % 1;
  return Math.floor(place) + (part < 0.3 ? 0 : ((part - 0.3) / 0.7) ** 2 * (3 - 2 * (part - 0.3) / 0.7));
};

const readMap = (event) => {
  const box = byId("map").getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / box.width * map.side, (event.clientY - box.top) / box.height * map.side];
  let [best, distance] = [-1, (12 * map.side / box.width) ** 2];
  map.drawn.forEach((place, point) => {
    const away = place ? (place[0] - x) ** 2 + (place[1] - y) ** 2 : Infinity;
    if (away < distance) [best, distance] = [point, away];
  });
  byId("map-out").textContent = best < 0 ? "" : [`row ${map.chosen.rows[best]}`, ...map.chosen.colors.map((color, place) => `${color.name} ${valueOf(color, map.chosen.shades[place][best])}`)].join(" · ");
};
const chooseMap = (place) => {
  stop();
  map.chosen = unpacked(maps[place]);
  map.at = map.chosen.frames - 1;
  map.color = Math.min(map.color, Math.max(map.chosen.colors.length - 1, 0));
  const slider = byId("map-slider");
  slider.max = map.chosen.frames - 1;
  slider.disabled = byId("map-play").disabled = map.chosen.frames < 2;
  byId("map-color").replaceChildren(...map.chosen.colors.map((color, index) => make("option", { value: index, selected: index === map.color }, color.name)));
  byId("map-color").disabled = map.chosen.colors.length < 2;
  byId("map-notes").replaceChildren(...map.chosen.notes.map((note) => make("li", {}, note)));
  byId("map-numbers").firstChild?.refresh();
};

// saving: the frame as it is drawn
const mapName = () => `map-${map.chosen.table}-${map.chosen.method}-step-${map.chosen.steps[Math.round(map.at)]}`;
const mapSvg = () => {
  const one = map.chosen;
  const codes = one.shades[map.color];
  const circles = map.drawn.map((place, point) => place && `<circle cx="${(place[0] * 640 / map.side).toFixed(1)}" cy="${(place[1] * 640 / map.side).toFixed(1)}" r="${(map.radius * 640 / map.side).toFixed(2)}" fill="${hex(rgbOf(one.colors[map.color], codes ? codes[point] : 0))}"/>`);
  return `<svg xmlns="${SVG}" viewBox="0 0 640 640" width="640" height="640"><rect width="640" height="640" fill="${computed("var(--card)")}"/><g fill-opacity=".85">${circles.filter(Boolean).join("")}</g></svg>`;
};
const mapCsv = () => {
  const one = map.chosen;
  const frame = Math.round(map.at);
  return range(one.points).map((point) => {
    const at = 2 * (frame * one.points + point);
    const lost = one.xy[at] === 65535;
    const xy = [0, 1].map((axis) => lost ? null : Number((one.at.low[axis] + one.at.span[axis] * one.xy[at + axis] / 65534).toPrecision(6)));
    return [one.run.name, one.table, one.method, one.steps[frame], one.rows[point], ...xy, ...one.colors.map((color, place) => valueOf(color, one.shades[place][point]).replaceAll(",", ""))];
  });
};
const mapTable = () => {
  const one = map.chosen;
  return {
    head: ["frame", "step", "epoch", "neighbors kept", "median move"],
    rows: range(one.frames).map((frame) => [String(frame + 1), counted(one.steps[frame]), number(one.epochs[frame]), one.preservation[frame] === null ? "–" : `${number(100 * one.preservation[frame], 3)}%`, number(one.displacement[frame], 3)]),
    note: "Neighbors kept: share of the nearest neighbors in the table that are neighbors on the map; what is lower than that is drawn closer or farther than it is. CSV has the places of the frame that is shown.",
  };
};

panels.maps = {
  start() {
    byId("map-choice").append(...maps.map((one, place) => make("option", { value: place }, `${many ? `${one.run.name}: ` : ""}${one.table} by ${one.method}`)));
    byId("map-choice").addEventListener("change", (event) => { chooseMap(Number(event.target.value)); drawMapLegend(); drawMap(); });
    byId("map-color").addEventListener("change", (event) => { map.color = Number(event.target.value); drawMapLegend(); drawMap(); });
    byId("map-slider").addEventListener("input", (event) => { stop(); showFrame(Number(event.target.value)); });
    byId("map-play").addEventListener("click", play);
    byId("map-speed").addEventListener("change", (event) => { map.speed = Number(event.target.value); });
    byId("map").addEventListener("pointermove", readMap);
    byId("map").addEventListener("pointerdown", readMap);
    byId("map").addEventListener("pointerleave", () => { byId("map-out").textContent = ""; });
    byId("map").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9, PageUp: -5, PageDown: 5 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      stop();
      showFrame(Math.round(map.at) + step);
    });
    addEventListener("keydown", (event) => {
      const busy = event.target.closest?.("button, input:not([type=range]), select, summary, a, textarea");
      if (event.key !== " " || busy || byId("maps").hidden) return;
      event.preventDefault();
      play();
    });
    addEventListener("resize", () => { if (!byId("maps").hidden) drawMap(); });
    byId("map-numbers").append(numbers(mapTable));
    byId("map-tools").append(savers({ SVG: () => saveText(`${fileName(mapName())}.svg`, "image/svg+xml", mapSvg()), PNG: () => savePng(`${fileName(mapName())}.png`, byId("map")), CSV: () => saveCsv(mapName(), ["run", "table", "method", "step", "row", "x", "y", ...map.chosen.colors.map((color) => color.name)], mapCsv()) }));
    chooseMap(0);
  },
  draw() { drawMapLegend(); drawMap(); },
};
shown.map = () => map.chosen ? { frame: Math.round(map.at), at: map.at, color: map.chosen.colors[map.color]?.name ?? null, playing: map.playing !== null, speed: map.speed, points: map.chosen.points, step: map.chosen.steps[Math.round(map.at)], side: map.side, places: map.drawn } : null;
