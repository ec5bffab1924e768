// One input: its image, what was concluded, and the votes of every stage.

const sheets = new Map();
let places = null; // of an image on the sheets, by index

function sheet(number) {
  if (!sheets.has(number)) {
    const image = new Image();
    image.src = `data:image/webp;base64,${one(`sheet-${number}`).textContent}`;
    sheets.set(number, image.decode().then(() => image));
  }
  return sheets.get(number);
}

// Draws the image of an input into a canvas, once its sheet is decoded.
function picture(canvas, index) {
  const { pictures } = page;
  places ??= new Map(pictures.index.map((of, place) => [of, place]));
  const place = places.get(index);
  canvas.hidden = place === undefined;
  if (canvas.hidden) return canvas;
  canvas.width = pictures.width;
  canvas.height = pictures.height;
  canvas.dataset.index = index;
  const tile = place % pictures.perSheet;
  const [x, y] = [tile % pictures.columns, Math.floor(tile / pictures.columns)];
  sheet(Math.floor(place / pictures.perSheet)).then((image) => {
    if (canvas.dataset.index !== String(index)) return; // another input was opened meanwhile
    const { width, height } = pictures;
    canvas.getContext("2d").drawImage(image, x * width, y * height, width, height, 0, 0, width, height);
    canvas.dataset.drawn = index;
  });
  return canvas;
}

let opened = null; // place in the view

function openInput(place) {
  opened = place;
  const { data, run, view } = explorer;
  const i = view[place];
  one("detail-title").textContent = `Input ${data.index[i]} of ${run.name}`;
  one("picture").hidden = true;
  if (run.images) {
    picture(one("picture"), data.index[i]);
    one("picture").setAttribute("role", "img");
    one("picture").setAttribute("aria-label", `Input ${data.index[i]}, ${className(run, at(data.label, i))}`);
  }
  one("facts").replaceChildren(...facts(i).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  one("advice").textContent = `${words(at(data.outcome, i))}: ${page.outcomes[at(data.outcome, i)]}.`;
  one("detail-previous").disabled = place === 0;
  one("detail-next").disabled = place === view.length - 1;
  const stages = stagesOf(i);
  one("stages").replaceChildren(stageTable(stages), ...stages.filter(({ looks }) => looks.length).map(looksOf));
  if (!one("detail").open) one("detail").showModal();
  one("detail").scrollTop = 0;
  drawVotes(i, stages);
  showOthers(i);
  remember(`run=${encodeURIComponent(run.name)}&input=${data.index[i]}`);
}

function facts(i) {
  const { data, run } = explorer;
  const told = [
    ["true class", className(run, at(data.label, i))],
    ["predicted", className(run, at(data.predicted, i))],
    ["certified radius", decimal(data.radius[i])],
    ["sigma in charge", plain(at(data.sigma, i))],
    ["draws", grouped(at(data.draws, i))],
  ];
  if (!data.routes) return told;
  told.push(["chosen expert", `${at(data.route, i)} (${data.routes[at(data.route, i)]})`]);
  told.push(["experts asked", String(at(data.asked, i))]);
  told.push(["R_sigma, where another route could win", decimal(at(data.R_sigma, i))]);
  told.push(["R_c, the chosen expert's own for the true class", decimal(at(data.R_c, i))]);
  told.push(["dRs = R_sigma - R_c", decimal(at(data.dRs, i))]);
  if ("R_best" in data) {
    told.push(["R_best, of the best expert", decimal(at(data.R_best, i))]);
    told.push(["dRc = R_best - R_c", decimal(at(data.dRc, i))]);
  }
  told.push(["limited by the router", at(data.limited, i) ? "yes" : "no"]);
  return told;
}

// The stages this input has, each with its values of this input alone.
function stagesOf(i) {
  return explorer.data.stages.flatMap((stage) => {
    const place = stage.inputs === null ? i : stage.inputs.indexOf(i);
    if (place < 0) return [];
    const { name, title, routes } = stage;
    const values = ["sigma", "n", "alpha", "lower", "upper", "radius"].map((key) => [key, at(stage[key], place)]);
    const looks = stage.looks ? stage.looks[place] : [];
    return [{ name, title, routes, votes: stage.votes[place], looks, ...Object.fromEntries(values) }];
  });
}

function voteName(stage, c) {
  if (c === -1) return "all others";
  return stage.routes ? `route ${c}: ${stage.routes[c]}` : className(explorer.run, c);
}

function pairs(votes) {
  return Array.from({ length: votes.length / 2 }, (_, k) => [votes[2 * k], votes[2 * k + 1]]);
}

function stageTable(stages) {
  const titles = ["stage", "sigma", "draws", "alpha", "lower", "upper", "radius", "votes"];
  const rows = stages.map((stage) => [
    stage.title, plain(stage.sigma), grouped(stage.n),
    stage.alpha ? String(Number(stage.alpha.toPrecision(3))) : "-",
    decimal(stage.lower), decimalUp(stage.upper), decimal(stage.radius),
    votesText(stage, stage.votes),
  ]);
  if (!rows.length) return element("p", { class: "small" }, "This record holds no votes.");
  return tableOf(titles, rows);
}

const votesText = (stage, votes) => pairs(votes).map(([c, k]) => `${voteName(stage, c)}: ${grouped(k)}`).join(", ");

// Where sampling could stop: what had been seen at every look, folded away.
function looksOf(stage) {
  const rows = stage.looks.map((votes, k) => {
    const drawn = pairs(votes).reduce((sum, [, of]) => sum + of, 0);
    return [String(k + 1), grouped(drawn), votesText(stage, votes)];
  });
  const head = element("summary", {}, `${stage.title}: ${rows.length} ${rows.length === 1 ? "look" : "looks"}`);
  return element("details", { class: "looks" }, head, tableOf(["look", "draws so far", "votes so far"], rows));
}

function tableOf(titles, rows) {
  const head = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const body = rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((text) => element("td", {}, text))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

// The same input in the runs of the same data.
async function showOthers(i) {
  const { number, run, data } = explorer;
  const index = data.index[i];
  const rows = [];
  for (const other of run.comparable) {
    const of = await runData(other);
    const j = of.index.indexOf(index);
    if (j >= 0) rows.push([page.runs[other].name, className(page.runs[other], at(of.predicted, j)), decimal(of.radius[j]), plain(at(of.sigma, j)), words(at(of.outcome, j))]);
  }
  if (explorer.number !== number || explorer.data.index[explorer.view[opened]] !== index) return;
  const title = element("h3", {}, "The same input in other runs");
  one("others").replaceChildren(...(rows.length ? [title, tableOf(["run", "predicted", "radius", "sigma", "outcome"], rows)] : []));
}

const BAR = 22; // pixels
const AROUND = 62; // above and below the bars of a panel: its title, its axis
const MOST_BARS = 5; // the table has the others
const WIDE = 600; // from which two panels stand side by side

// One panel of bars a stage; the predicted class and the true one have colours of their own.
function drawVotes(i, stages) {
  if (!window.Plotly || !stages.length) { one("votes").replaceChildren(); return; }
  const across = one("detail").clientWidth >= WIDE && stages.length > 1 ? 2 : 1;
  const { height, domains } = panels(stages, across);
  const layout = {
    ...baseLayout(), showlegend: false, height, margin: { l: 10, r: 25, t: 0, b: 0 }, annotations: [], shapes: [],
  };
  const traces = stages.map((stage, k) => {
    const id = k ? String(k + 1) : "";
    const [x, y] = domains[k];
    const still = { ...baseAxis(), fixedrange: true };
    layout[`xaxis${id}`] = { ...still, domain: x, anchor: `y${id}`, range: [0, stage.n * 1.12], nticks: 4 };
    layout[`yaxis${id}`] = { ...still, domain: y, anchor: `x${id}`, autorange: "reversed", automargin: true, type: "category", dtick: 1 };
    layout.annotations.push({
      text: shownByPlotly(`${stage.title}, sigma ${plain(stage.sigma)}`), showarrow: false,
      xref: `x${id} domain`, yref: `y${id} domain`, x: 0, y: 1, xanchor: "left", yanchor: "bottom", font: { size: 12 },
    });
    if (stage.lower !== null && stage.n > 1) layout.shapes.push(boundLine(id, (stage.n * stage.lower) / MILLION));
    return barsOf(i, stage, id);
  });
  Plotly.react("votes", traces, layout, { responsive: true, displayModeBar: false });
}

// Where each panel stands, as parts of the whole; a row is as high as its fullest panel needs.
function panels(stages, across) {
  const bars = stages.map(({ votes }) => Math.min(votes.length / 2, MOST_BARS + 1));
  const rows = [];
  for (let k = 0; k < bars.length; k += across) rows.push(BAR * Math.max(...bars.slice(k, k + across)));
  const height = rows.reduce((sum, row) => sum + row + AROUND, 0);
  const width = across === 2 ? 0.42 : 1;
  let top = height;
  const domains = rows.flatMap((row) => {
    const y = [(top - AROUND / 2 - row) / height, (top - AROUND / 2) / height];
    top -= row + AROUND;
    return Array.from({ length: across }, (_, c) => [[c * (1 - width), c * (1 - width) + width], y]);
  });
  return { height, domains };
}

const boundLine = (id, x) => ({
  type: "line", xref: `x${id}`, yref: `y${id} domain`, x0: x, x1: x, y0: 0, y1: 1, line: { color: css("--ink"), width: 1.5, dash: "dot" },
});

// The first classes, and all others as one bar.
function fewest(votes) {
  if (votes.length <= MOST_BARS + 1) return votes;
  const rest = votes.slice(MOST_BARS).reduce((sum, [, k]) => sum + k, 0);
  return [...votes.slice(0, MOST_BARS), [-1, rest]];
}

function barsOf(i, stage, id) {
  const { data } = explorer;
  const [blue, orange] = page.colours;
  const colour = (c) => {
    if (stage.routes) return c === at(data.route, i) ? blue : "#9aa5af";
    return c === at(data.predicted, i) ? blue : c === at(data.label, i) ? orange : "#9aa5af";
  };
  const votes = fewest(pairs(stage.votes));
  return {
    type: "bar", orientation: "h", xaxis: `x${id}`, yaxis: `y${id}`,
    x: votes.map(([, k]) => k), y: votes.map(([c]) => shownByPlotly(voteName(stage, c))),
    marker: { color: votes.map(([c]) => colour(c)) },
    text: votes.map(([, k]) => grouped(k)), textposition: "outside", cliponaxis: false,
    hovertemplate: "%{y}: %{x} votes<extra></extra>",
  };
}
