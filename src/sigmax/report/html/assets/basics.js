// What all parts share: the data of the page, numbers as text, elements, colours.

const one = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    created.setAttribute(name, value === true ? "" : value);
  }
  created.append(...children); // text is never read as HTML: names come from files
  return created;
}

// Base64 of gzip, as `packing.py` writes it.
async function unpacked(id) {
  const letters = atob(one(id).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// A column is a list, or one value that all rows share.
const at = (column, i) => (Array.isArray(column) ? column[i] : column);

// Millionths, which are whole numbers, as a decimal: digits are cut off, downward unless another rounding is given.
function decimal(millionths, decimals = 4, round = Math.floor) {
  if (millionths === null || millionths === undefined) return "-";
  const scale = 10 ** decimals;
  const cut = round(millionths / (1e6 / scale));
  const sign = cut < 0 ? "-" : "";
  const digits = String(Math.abs(cut)).padStart(decimals + 1, "0");
  return decimals ? `${sign}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}` : sign + digits;
}

const decimalUp = (millionths) => decimal(millionths, 4, Math.ceil);
const setting = (value) => (value === null ? "-" : value ? String(value) : "none");
const grouped = (count) => count.toLocaleString("en");
const words = (name) => name.replaceAll("_", " ");

const ABSTAINED = -1;

function className(run, c) {
  if (c === ABSTAINED) return "abstained";
  if (c === null) return "not known";
  const name = run.classes[c];
  return name === undefined || name === String(c) ? String(c) : `${c} ${name}`;
}

// plotly reads a few tags in its texts; a name must stay what it is.
const shownByPlotly = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isDark = () => document.documentElement.dataset.theme === "dark";

const DASHES = ["solid", "dash", "dot", "dashdot"];
const GREYS = ["#8a8a8a", "#adadad"];

// Colour and dash of the line with this number; black would be lost on a dark ground.
function lineStyle(number, reference) {
  if (reference) return { color: GREYS[number % GREYS.length], dash: DASHES[1 + (number % 3)] };
  const { colours } = page;
  const colour = colours[number % colours.length];
  const dash = DASHES[Math.floor(number / colours.length) % DASHES.length];
  return { color: colour === "#000000" && isDark() ? "#ffffff" : colour, dash };
}

function baseLayout() {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--faint"), activecolor: css("--accent") },
    font: { color: css("--ink"), family: "system-ui, sans-serif", size: 13 },
    hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--ink") } },
  };
}

const baseAxis = () => ({ gridcolor: css("--line"), linecolor: css("--line"), zerolinecolor: css("--line") });

// Only buttons that work without a network.
const PLOT_OPTIONS = {
  responsive: true,
  displaylogo: false,
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
};

let page = null; // set once, by main.js
