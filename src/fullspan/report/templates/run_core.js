// What the parts of the page share: the data, numbers in words, colors, drawings, and files to save.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("run-data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const runs = data.runs;
const many = runs.length > 1;
// What is drawn now, for tests and for whoever looks from the console.
const shown = { exported: null };
window.fullspan = shown;

// packed arrays
const bytes = (text) => {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
};
const floats = (text) => new Float32Array(bytes(text).buffer);
const words16 = (text) => new Uint16Array(bytes(text).buffer);
const words32 = (text) => new Uint32Array(bytes(text).buffer);
const unrolled = (coded) => coded.flatMap(([value, count]) => Array(count).fill(value));
const range = (count) => [...Array(count).keys()];

// numbers in words, as the rest of the report writes them
const grouped = (value, places) => value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
const number = (value, digits = 4) => {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return grouped(value, 0);
  if (size < 1e-4 || size >= 1e6) return value.toExponential(digits - 1).replace("e+", "e");
  return grouped(value, Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
};
const counted = (value) => Number.isInteger(value) && Math.abs(value) < 1e15 ? grouped(value, 0) : number(value);
const lasted = (seconds) => {
  if (seconds < 60) return `${number(seconds, 3)} s`;
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.round(seconds % 60)];
  return h ? `${h} h ${m} min` : `${m} min${s ? ` ${s} s` : ""}`;
};
const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

// elements
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};
const pill = (text, pressed, action, more = {}) => make("button", { type: "button", class: "quiet", "aria-pressed": String(pressed), onclick: action, ...more }, text);
const press = (button, state) => button.setAttribute("aria-pressed", String(state));

// the four clocks
const CLOCKS = { epoch: "epoch", step: "optimizer step", samples: "samples seen", time: "time since the start" };
const clockOf = (kind, value) => kind === "time" ? lasted(value) : `${kind} ${kind === "epoch" ? Number(value.toPrecision(4)) : counted(value)}`;
const hasClock = (kind) => runs.some((run) => run.moments[kind].filter((value) => value !== null).length > 1);
const clocks = Object.keys(CLOCKS).filter(hasClock);
const state = { clock: clocks[0] ?? "step" };
const momentOf = (run, place) => ["epoch", "step"].filter((kind) => run.moments[kind][place] !== null).map((kind) => clockOf(kind, run.moments[kind][place])).join(" · ");

// scales
const nice = (rough, parts = [1, 2, 5, 10]) => {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * parts.find((part) => power * part >= rough * 0.999);
};
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const label = (value, step) => {
  if (value === 0) return "0";
  const size = Math.max(Math.abs(value), step);
  if (size < 1e-4) return value.toExponential(1);
  if (size >= 1e4) {
    const unit = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e5 ? [1e3, "k"] : [1, ""];
    return (value / unit[0]).toLocaleString("en-US", { maximumFractionDigits: 2 }) + unit[1];
  }
  return grouped(value, Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))));
};
const raised = (power) => `10${[...String(power)].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
const ticks = (low, high, { log = false, time = false, most = 6, whole = false } = {}) => {
  if (!(high > low)) return [[low, time ? lasted(low) : number(low)]];
  if (log) {
    const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
    if (last - first >= 2) {
      const by = Math.max(1, Math.ceil((last - first + 1) / most));
      return range(Math.floor((last - first) / by) + 1).map((k) => [10 ** (first + k * by), raised(first + k * by)]);
    }
    const inside = range(last - first + 2).flatMap((k) => [1, 2, 5].map((part) => part * 10 ** (first - 1 + k))).filter((at) => low <= at && at <= high);
    if (inside.length > 2) return inside.map((at) => [at, at < 1e-4 || at >= 1e5 ? at.toExponential(0) : String(Number(at.toPrecision(2)))]);
  }
  const rough = (high - low) / (most - 1);
  let step = time && rough > 0.5 ? TIMES.find((each) => each >= rough) ?? nice(rough / 86400) * 86400 : nice(rough);
  if (whole) step = Math.max(1, step);
  const first = Math.ceil(low / step - 1e-9);
  return range(Math.floor(high / step + 1e-9) - first + 1).map((k) => (first + k) * step).map((at) => [at, time ? lasted(at) : label(at, step)]);
};
const scale = (low, high, from, to, log = false) => {
  const of = log ? Math.log10 : (value) => value;
  const width = of(high) - of(low);
  return (value) => width > 0 ? from + (to - from) * (of(value) - of(low)) / width : (from + to) / 2;
};

// place of the nearest of rising times
const nearestPlace = (times, at) => {
  let [from, to] = [0, times.length - 1];
  while (to - from > 1) {
    const middle = (from + to) >> 1;
    if (times[middle] <= at) from = middle; else to = middle;
  }
  return at - times[from] <= times[to] - at ? from : to;
};

// colors: those of the theme by name, a ramp for many series, viridis for amounts
const INKS = range(8).map((place) => `var(--s${place})`);
const HUES = ["#1f6fb2", "#0b8391", "#1a7a5e", "#6f7a12", "#b0650c", "#b3351f", "#a3306f", "#7a55b0"];
const mixed = (stops, part) => {
  const place = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const [from, to] = [stops[Math.floor(place)], stops[Math.ceil(place)]];
  const of = (color, shift) => parseInt(color.slice(1 + shift, 3 + shift), 16);
  return [0, 2, 4].map((shift) => Math.round(of(from, shift) + (of(to, shift) - of(from, shift)) * (place % 1)));
};
const hex = (rgb) => `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
const inkOf = (place, count) => count <= INKS.length ? INKS[place] : `color-mix(in srgb, ${hex(mixed(HUES, place / (count - 1)))} var(--ramp), white)`;
const VIRIDIS = ["#440154", "#481b6d", "#46327e", "#3f4788", "#365c8d", "#2e6e8e", "#277f8e", "#21918c", "#1fa187", "#2db27d", "#4ac16d", "#73d056", "#a0da39", "#d0e11c", "#fde725"];
const viridis = range(256).map((code) => mixed(VIRIDIS, code / 255));
const probe = byId("probe");
const computed = (color) => {
  probe.style.color = color;
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = getComputedStyle(probe).color;
  canvas.fillRect(0, 0, 1, 1);
  return hex([...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
};

// text on a drawing; a drawing that stands alone has its colors in it
const text = (x, y, words, { anchor = "start", kind = "tick", size = 12.5 } = {}) =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" font-size="${size}" style="fill:var(--${kind === "label" ? "ink" : "soft"})">${escaped(words)}</text>`;
const legendOf = (legend, width, top) => {
  let [x, y] = [14, top + 14];
  const parts = legend.map(([ink, dash, name]) => {
    const wide = 40 + 7 * name.length;
    if (x + wide > width && x > 14) [x, y] = [14, y + 18];
    const part = `<line x1="${x}" x2="${x + 20}" y1="${y - 4}" y2="${y - 4}" stroke-width="3" stroke-linecap="round" ${dash ? `stroke-dasharray="${dash}"` : ""} style="stroke:${ink}"/>${text(x + 27, y, name)}`;
    x += wide;
    return part;
  });
  return [parts.join(""), legend.length ? y + 12 : top];
};
const alone = (svg, { title = "", legend = [] } = {}) => {
  const copy = svg.cloneNode(true);
  for (const each of copy.querySelectorAll(".cursor, .zone")) each.remove();
  const [, , width, drawnHeight] = svg.getAttribute("viewBox").split(" ").map(Number);
  const head = title ? 26 : 0;
  const [legendDrawn, height] = legendOf(legend, width, drawnHeight + head);
  if (head) {
    const inner = document.createElementNS(SVG, "g");
    inner.setAttribute("transform", `translate(0 ${head})`);
    inner.append(...copy.childNodes);
    copy.append(inner);
    copy.insertAdjacentHTML("beforeend", `<text x="14" y="20" font-size="15" font-weight="600" style="fill:var(--ink)">${escaped(title)}</text>`);
  }
  copy.insertAdjacentHTML("beforeend", legendDrawn);
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const [name, value] of Object.entries({ xmlns: SVG, width, height, "font-family": "system-ui, 'Liberation Sans', Arial, sans-serif" })) copy.setAttribute(name, value);
  for (const name of ["tabindex", "class", "aria-label", "role", "aria-describedby"]) copy.removeAttribute(name);
  copy.insertAdjacentHTML("afterbegin", `<rect width="${width}" height="${height}" style="fill:var(--card)"/>`);
  const drawn = new XMLSerializer().serializeToString(copy);
  return { drawn: drawn.replace(/color-mix\([^)]*\([^)]*\)[^)]*\)|var\(--[\w-]+\)/g, (color) => computed(color)), width, height };
};

// files to save
const fileName = (name) => name.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 80) || "fullspan";
const save = (name, blob, more = {}) => {
  shown.exported = { name, type: blob.type, size: blob.size, ...more };
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
};
const saveText = (name, type, content) => save(name, new Blob([content], { type }), { text: content });
const savePng = (name, canvas) => canvas.toBlob((blob) => save(name, blob, { width: canvas.width, height: canvas.height }), "image/png");
const saveSvg = (name, svg, told) => saveText(`${fileName(name)}.svg`, "image/svg+xml", alone(svg, told).drawn);
const saveSvgAsPng = (name, svg, told) => {
  const { drawn, width, height } = alone(svg, told);
  const image = new Image();
  image.onload = () => {
    const canvas = make("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    savePng(`${fileName(name)}.png`, canvas);
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawn)}`;
};
const cell = (value) => {
  if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value))) return "";
  const plain = String(value);
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
};
const saveCsv = (name, head, rows) => saveText(`${fileName(name)}.csv`, "text/csv", `${[head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`);
// seven digits are all that the page holds
const exact = (value) => value === null || Number.isNaN(value) ? null : Number(value.toPrecision(7));

// a table of numbers that is made when somebody opens it
const numbers = (build) => {
  const details = make("details", { class: "numbers" }, make("summary", {}, "Numbers"));
  details.addEventListener("toggle", () => { if (details.open) fill(); });
  const fill = () => {
    const { head, rows, note } = build();
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...head.map((each) => make("th", { scope: "col" }, each)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((each, place) => place ? make("td", {}, each) : make("th", { scope: "row" }, each))))));
    const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers" }, table);
    details.replaceChildren(details.firstElementChild, box, ...(note ? [make("p", { class: "hint" }, note)] : []));
  };
  details.refresh = () => { if (details.open) fill(); };
  return details;
};
const thinned = (count, most) => count <= most ? range(count) : [...new Set(range(most).map((place) => Math.round(place * (count - 1) / (most - 1))))];
const savers = (actions) => make("span", { class: "savers", role: "group", "aria-label": "Save" },
  ...Object.entries(actions).map(([name, action]) => make("button", { type: "button", class: "quiet mini", "data-save": name.toLowerCase(), onclick: action }, name)));

// panels draw themselves when they are first seen, and again when the theme changes
const panels = {};
const onTheme = [];
