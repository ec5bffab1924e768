// The figures of all runs: one at a time is drawn, and each line can be hidden.

const drawing = { key: null, hidden: new Set(), bands: true };

function startFigures() {
  drawing.key = page.figures[0].key;
  for (const figure of page.figures) {
    const choice = element("input", { type: "radio", name: "figure", value: figure.key, checked: figure.key === drawing.key });
    choice.addEventListener("change", () => { drawing.key = figure.key; drawFigure(); });
    one("figure-choice").append(element("label", {}, choice, figure.title));
  }
  one("figure-choice").hidden = page.figures.length < 2;
  showToggles();
}

// Every line that some figure has, with the style it keeps in all of them.
function allLines() {
  const styles = new Map();
  let runs = 0;
  let references = 0;
  for (const run of page.runs) styles.set(run.name, lineStyle(runs++, false));
  for (const figure of page.figures) {
    for (const line of figure.lines) {
      if (!styles.has(line.name)) styles.set(line.name, lineStyle(references++, true));
    }
  }
  return styles;
}

function showToggles() {
  const box = one("toggles");
  for (const old of box.querySelectorAll("label")) old.remove();
  for (const [name, style] of allLines()) {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = strokes(style);
    box.append(toggle(name, !drawing.hidden.has(name), (on) => {
      if (on) drawing.hidden.delete(name); else drawing.hidden.add(name);
    }, swatch));
  }
  box.append(toggle(`${100 * page.level}% bands`, drawing.bands, (on) => { drawing.bands = on; }));
  offerToggles();
}

// A line's dashes as a background: pixels drawn and left out in turn, as plotly has them.
function strokes({ color, dash }) {
  const lengths = { solid: [1], dash: [8, 4], dot: [3, 3], dashdot: [8, 3, 3, 3] }[dash];
  let end = 0;
  const parts = lengths.map((length, k) => `${k % 2 ? "transparent" : color} ${end}px ${end += length}px`);
  return `repeating-linear-gradient(90deg, ${parts.join(", ")})`;
}

// Only what the chosen figure has can be switched.
function offerToggles() {
  const { lines } = page.figures.find(({ key }) => key === drawing.key);
  const names = new Set(lines.map(({ name }) => name));
  if (lines.some(({ low }) => low)) names.add(`${100 * page.level}% bands`);
  for (const input of one("toggles").querySelectorAll("input")) input.closest("label").hidden = !names.has(input.dataset.line);
}

function toggle(name, on, change, ...before) {
  const input = element("input", { type: "checkbox", checked: on, "data-line": name });
  input.addEventListener("change", () => { change(input.checked); drawFigure(); });
  return element("label", {}, input, ...before, name);
}

function drawFigure() {
  if (!window.Plotly) return; // it arrives a moment after the rows do
  const figure = page.figures.find(({ key }) => key === drawing.key);
  const styles = allLines();
  const traces = figure.lines.flatMap((line) => tracesOf(figure, line, styles.get(line.name)));
  const rising = figure.step === "hv";
  const layout = {
    ...baseLayout(),
    margin: { l: 55, r: 15, t: 34, b: 50 }, // above: the buttons
    showlegend: false,
    hovermode: "x unified",
    xaxis: { ...baseAxis(), title: { text: figure.x }, hoverformat: ".6f", rangemode: rising ? "normal" : "tozero" },
    yaxis: { ...baseAxis(), title: { text: figure.y }, range: [0, 101] },
  };
  Plotly.react("figure", traces, layout, PLOT_OPTIONS);
  offerToggles();
  one("figure-note").textContent = figure.note
    ?? `Line: share of inputs; band: its ${100 * page.level}% Clopper-Pearson interval over inputs, at each value by itself.`;
}

const PERCENT = 100; // shares are in hundredths of a percent
const MILLION = 1e6;

function tracesOf(figure, line, style) {
  const visible = !drawing.hidden.has(line.name);
  const x = line.x.map((value) => value / MILLION);
  const falls = figure.step === "vh" && !line.cut; // to the axis, where the last input is lost
  const closed = (values, last) => (falls ? [...values, last] : values);
  const texts = line.y.map((share, k) => `${(share / PERCENT).toFixed(2)}% at ${decimal(line.x[k])}`);
  const main = {
    name: shownByPlotly(line.name), visible, type: "scatter", mode: "lines",
    x: closed(x, x.at(-1)), y: closed(line.y.map((value) => value / PERCENT), 0),
    text: closed(texts, `0% beyond ${decimal(line.x.at(-1))}`),
    line: { ...style, width: line.reference ? 1.6 : 2.2, shape: figure.step },
    hovertemplate: "%{text}", // plotly would round a radius to the nearest
  };
  if (!line.low || !drawing.bands) return [main];
  const band = { visible, type: "scatter", mode: "lines", x, line: { width: 0, shape: figure.step }, hoverinfo: "skip" };
  const alpha = `${style.color}2e`;
  return [
    { ...band, y: line.low.map((value) => value / PERCENT) },
    { ...band, y: line.high.map((value) => value / PERCENT), fill: "tonexty", fillcolor: alpha },
    main,
  ];
}
