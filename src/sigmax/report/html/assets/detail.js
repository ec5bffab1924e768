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
  one("detail-previous").disabled = place === 0;
  one("detail-next").disabled = place === view.length - 1;
  const stages = stagesOf(i);
  one("advice").textContent = conclusion(i);
  one("why").textContent = whyOf(i, stages);
  one("stages").replaceChildren(stageTable(stages), ...stages.filter(({ looks }) => looks.length).map(looksOf));
  if (!one("detail").open) one("detail").showModal();
  one("detail").scrollTop = 0;
  drawVotes(i, stages);
  showOthers(i);
  remember(`run=${encodeURIComponent(run.name)}&input=${data.index[i]}`);
}

// What was concluded, in a sentence; of an abstention also what to do.
function conclusion(i) {
  const { data, run } = explorer;
  const advice = page.outcomes[at(data.outcome, i)];
  const answer = at(data.predicted, i);
  if (answer === ABSTAINED) return `Abstained (${words(at(data.outcome, i))}): ${advice}.`;
  const claimed = ["claimed", "impossible"].includes(at(data.outcome, i));
  const said = claimed ? "Another tool's log claims class" : "Class";
  return `${said} ${className(run, answer)} within radius ${decimal(data.radius[i])} (${words(at(data.outcome, i))}): ${advice}.`;
}

// Which stage limits the radius, or kept the input from any; and who answered, where that is another part.
function whyOf(i, stages) {
  const { data } = explorer;
  const limit = stages.find(({ title }) => title === at(data.limited, i));
  if (!limit) return "";
  const answered = at(data.answered, i);
  const certified = at(data.predicted, i) !== ABSTAINED;
  const other = certified && answered && answered !== limit.part ? ` The class is that of ${answered}.` : "";
  return `${certified ? "The radius is limited" : "This was decided"} by ${inWords(limit)}.${other}`;
}

function inWords(stage) {
  const part = /\d$/.test(stage.part) ? stage.part : `the ${stage.part}`; // expert 1; the router
  const whose = stage.part ? `the ${stage.role} of ${part}` : `the ${stage.role}`;
  if (stage.n < 2 || !stage.sigma) return whose; // a score without noise, a memory
  const proved = [];
  if (stage.lower !== null) proved.push(`${stage.routes ? "the chosen expert's share" : "p_A"} is at least ${decimal(stage.lower)}`);
  if (stage.upper !== null) proved.push(`no other share is above ${decimalUp(stage.upper)}`);
  const shown = proved.length ? `, which show that ${proved.join(" and ")}` : "";
  return `${whose}: ${grouped(stage.n)} samples at sigma ${setting(stage.sigma)}${shown}`;
}

function facts(i) {
  const { data, run } = explorer;
  const noise = `sigma ${setting(at(data.sigma, i))}`;
  const limit = stagesOf(i).find(({ title }) => title === at(data.limited, i));
  const abstained = at(data.predicted, i) === ABSTAINED;
  const rows = [
    ...(run.labelled ? [["true class", className(run, at(data.label, i))]] : []),
    ["predicted", className(run, at(data.predicted, i))],
    ["certified radius", abstained ? "none" : decimal(data.radius[i])],
    [abstained ? "decided by" : "limited by", limit ? `${limit.title} (sigma ${setting(limit.sigma)})` : "-"],
    ...(abstained ? [] : [["answered by", at(data.answered, i) ? `${at(data.answered, i)} (${noise})` : noise]]),
    ["samples", grouped(at(data.samples, i))],
  ];
  if (!data.routes) return rows;
  rows.push(["experts asked", String(at(data.asked, i))]);
  rows.push(["R_sigma, where another route could win", decimal(at(data.R_sigma, i))]);
  rows.push([run.labelled ? "R_c, the chosen expert's own for the true class" : "R_c, the chosen expert's own", decimal(at(data.R_c, i))]);
  rows.push(["dRs = R_sigma - R_c", decimal(at(data.dRs, i))]);
  if ("R_best" in data) {
    rows.push(["R_best, of the best expert", decimal(at(data.R_best, i))]);
    rows.push(["dRc = R_best - R_c", decimal(at(data.dRc, i))]);
  }
  rows.push(["certified for less than the expert alone", at(data.bottleneck, i) ? "yes" : "no"]);
  return rows;
}

// The stages this input has, each with its values of this input alone.
function stagesOf(i) {
  return explorer.data.stages.flatMap((stage) => {
    const place = stage.inputs === null ? i : stage.inputs.indexOf(i);
    if (place < 0) return [];
    const { name, title, part, role, routes, defer } = stage;
    const values = ["sigma", "n", "alpha", "lower", "upper", "radius"].map((key) => [key, at(stage[key], place)]);
    const looks = stage.looks ? stage.looks[place] : [];
    return [{ name, title, part, role, routes, defer, votes: stage.votes[place], looks, ...Object.fromEntries(values) }];
  });
}

function voteName(stage, c) {
  if (c === -1) return "all others";
  if (c === stage.defer) return "defer";
  return stage.routes ? stage.routes[c] : className(explorer.run, c);
}

function pairs(votes) {
  return Array.from({ length: votes.length / 2 }, (_, k) => [votes[2 * k], votes[2 * k + 1]]);
}

function stageTable(stages) {
  const titles = ["stage", "sigma", "samples", "alpha", "lower", "upper", "radius", "votes"];
  const rows = stages.map((stage) => [
    stage.title, setting(stage.sigma), grouped(stage.n),
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
    const cast = pairs(votes).reduce((sum, [, of]) => sum + of, 0);
    return [String(k + 1), grouped(cast), votesText(stage, votes)];
  });
  const head = element("summary", {}, `${stage.title}: ${rows.length} ${rows.length === 1 ? "look" : "looks"}`);
  return element("details", { class: "looks" }, head, tableOf(["look", "samples so far", "votes so far"], rows));
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
    if (j >= 0) rows.push([page.runs[other].name, className(page.runs[other], at(of.predicted, j)), decimal(of.radius[j]), setting(at(of.sigma, j)), words(at(of.outcome, j))]);
  }
  if (explorer.number !== number || explorer.data.index[explorer.view[opened]] !== index) return;
  const title = element("h3", {}, "The same input in other runs");
  one("others").replaceChildren(...(rows.length ? [title, tableOf(["run", "predicted", "radius", "sigma", "outcome"], rows)] : []));
}

const BAR = 22; // pixels
const AROUND = 62; // above and below the bars of a panel: its title, its axis
const MOST_BARS = 5; // the table has the others
const LONGEST = 20; // letters of a bar's name; the table has the whole of it
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
    const still = { ...baseAxis(), fixedrange: true, showgrid: false }; // lines would cross the numbers beside the bars
    layout[`xaxis${id}`] = { ...still, domain: x, anchor: `y${id}`, range: [0, stage.n * 1.12], nticks: 4 };
    layout[`yaxis${id}`] = { ...still, domain: y, anchor: `x${id}`, autorange: "reversed", automargin: true, type: "category", dtick: 1 };
    layout.annotations.push({
      text: shownByPlotly(`${stage.title}, sigma ${setting(stage.sigma)}`), showarrow: false,
      xref: `x${id} domain`, yref: `y${id} domain`, x: 0, y: 1, xanchor: "left", yanchor: "bottom", font: { size: 12 },
    });
    const place = boundedBar(stage, stages);
    if (place >= 0) layout.shapes.push(boundLine(id, (stage.n * stage.lower) / MILLION, place));
    return barsOf(i, stage, id);
  });
  Plotly.react("votes", traces, layout, { responsive: true, displayModeBar: false });
}

// Where each panel stands, as parts of the whole: as high as its bars need, in a row as high as its fullest panel.
function panels(stages, across) {
  const bars = stages.map(({ votes }) => Math.min(votes.length / 2, MOST_BARS + 1));
  const rows = [];
  for (let k = 0; k < bars.length; k += across) rows.push(BAR * Math.max(...bars.slice(k, k + across)));
  const height = rows.reduce((sum, row) => sum + row + AROUND, 0);
  const width = across === 2 ? 0.4 : 1;
  let top = height;
  const domains = bars.map((count, k) => {
    const c = k % across;
    const end = top - AROUND / 2;
    if (c === across - 1) top -= rows[Math.floor(k / across)] + AROUND;
    return [[c * (1 - width), c * (1 - width) + width], [(end - BAR * count) / height, end / height]];
  });
  return { height, domains };
}

const shortened = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}\u2026` : name);

// The bar whose share `lower` bounds: of the class that the part's selection picked; -1 where none is shown.
function boundedBar(stage, stages) {
  if (stage.lower === null || stage.n < 2) return -1;
  const selection = stages.find(({ part, role }) => part === stage.part && role === "selection");
  const [picked] = (selection ?? stage).votes;
  return fewest(pairs(stage.votes)).findIndex(([c, k]) => c === picked && stage.n * stage.lower <= k * MILLION);
}

const boundLine = (id, x, place) => ({
  type: "line", xref: `x${id}`, yref: `y${id}`, x0: x, x1: x, y0: place - 0.45, y1: place + 0.45,
  line: { color: css("--ink"), width: 1.5, dash: "dot" },
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
    x: votes.map(([, k]) => k), y: votes.map(([c]) => shownByPlotly(shortened(voteName(stage, c)))),
    marker: { color: votes.map(([c]) => colour(c)) },
    text: votes.map(([, k]) => grouped(k)), textposition: "outside", cliponaxis: false,
    hovertemplate: "%{y}: %{x} votes<extra></extra>",
  };
}
