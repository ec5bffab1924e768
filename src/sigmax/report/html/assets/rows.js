// The explorer's rows: filter, sort, one page of them at a time.

const PER_PAGE = 50;
const explorer = { number: 0, run: null, data: null, view: [], sort: "index", rising: true, first: 0 };
const loaded = new Map();

async function runData(number) {
  if (!loaded.has(number)) loaded.set(number, unpacked(`data-run-${number}`).then(JSON.parse));
  return loaded.get(number);
}

const COLUMNS = [
  { key: "index", title: "input", value: (d, i) => d.index[i] },
  { key: "label", title: "true class", text: (d, i) => className(explorer.run, at(d.label, i)), left: true, labelled: true },
  { key: "predicted", title: "predicted", text: (d, i) => className(explorer.run, at(d.predicted, i)), left: true },
  { key: "radius", title: "radius", text: (d, i) => decimal(d.radius[i]) },
  { key: "sigma", title: "answering sigma", text: (d, i) => setting(at(d.sigma, i)), minor: true },
  { key: "R_sigma", title: "R_sigma", text: (d, i) => decimal(at(d.R_sigma, i)), minor: true, routed: true },
  { key: "R_c", title: "R_c", text: (d, i) => decimal(at(d.R_c, i)), minor: true, routed: true },
  { key: "outcome", title: "outcome", text: (d, i) => words(at(d.outcome, i)), left: true },
  { key: "samples", title: "samples", text: (d, i) => grouped(at(d.samples, i)), minor: true },
];

const columns = () => COLUMNS.filter(({ routed, labelled, key }) => (!routed || key in explorer.data) && (!labelled || explorer.run.labelled));
const ANSWERS = [["right", "right"], ["wrong", "wrong"], ["none", "abstained"]];
const WITHOUT_LABELS = [["answered", "answered"], ["none", "abstained"]];

function startRows() {
  for (const [number, run] of page.runs.entries()) {
    one("run").append(element("option", { value: number }, run.name));
  }
  one("run").addEventListener("change", () => chooseRun(Number(one("run").value)));
  one("filters").addEventListener("input", filterRows);
  one("filters").addEventListener("submit", (event) => event.preventDefault());
  one("find").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || explorer.view.length !== 1) return;
    event.preventDefault();
    openInput(0);
  });
  one("filters").addEventListener("reset", (event) => {
    event.preventDefault(); // the run chosen stays
    clearFilters();
  });
  one("lossy").hidden = !page.pictures || page.pictures.exact;
  one("previous").addEventListener("click", () => turnTo(explorer.first - PER_PAGE));
  one("next").addEventListener("click", () => turnTo(explorer.first + PER_PAGE));
  one("body").addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) openInput(Number(row.dataset.place));
  });
  one("body").addEventListener("keydown", moveByKey);
}

function clearFilters() {
  for (const id of ["find", "answer", "outcome", "sigma", "from", "to"]) one(id).value = "";
  filterRows();
}

async function chooseRun(number) {
  explorer.data = await runData(number);
  explorer.number = number;
  explorer.run = page.runs[number];
  one("run").value = number;
  const all = (column) => [...new Set(Array.isArray(column) ? column : [column])];
  offer("answer", explorer.run.labelled ? ANSWERS : WITHOUT_LABELS);
  offer("outcome", all(explorer.data.outcome).sort().map((name) => [name, words(name)]));
  offer("sigma", all(explorer.data.sigma).sort((a, b) => a - b).map((value) => [String(value), setting(value)]));
  if (!columns().some(({ key }) => key === explorer.sort)) explorer.sort = "index";
  filterRows();
  one("rows").dataset.run = number;
}

// The choices of a filter; the current one stays where it still exists.
function offer(id, choices) {
  const before = one(id).value;
  one(id).replaceChildren(element("option", { value: "" }, "any"));
  for (const [value, text] of choices) one(id).append(element("option", { value }, text));
  one(id).value = choices.some(([value]) => value === before) ? before : "";
}

function filterRows() {
  const { data, run } = explorer;
  const [find, answer, outcome, sigma, from, to] = ["find", "answer", "outcome", "sigma", "from", "to"].map((id) => one(id).value);
  const sought = find.trim().toLowerCase();
  const least = from === "" ? -Infinity : Number(from) * MILLION;
  const most = to === "" ? Infinity : Number(to) * MILLION;
  explorer.view = [...data.index.keys()].filter((i) => {
    const label = at(data.label, i);
    const predicted = at(data.predicted, i);
    const kind = predicted === ABSTAINED ? "none" : !run.labelled ? "answered" : predicted === label ? "right" : "wrong";
    return (!answer || kind === answer)
      && (!outcome || at(data.outcome, i) === outcome)
      && (!sigma || String(at(data.sigma, i)) === sigma)
      && data.radius[i] >= least && data.radius[i] <= most
      && (!sought || found(sought, data.index[i], className(run, label), className(run, predicted)));
  });
  sortRows();
}

const found = (sought, index, ...names) => sought === String(index) || names.some((name) => name.toLowerCase().includes(sought));

function sortRows() {
  const column = explorer.data[explorer.sort];
  const sign = explorer.rising ? 1 : -1;
  const value = (i) => at(column, i) ?? -Infinity; // what is not known comes before all that is
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  explorer.view.sort((i, j) => sign * compare(value(i), value(j)) || i - j);
  turnTo(0);
}

function turnTo(first) {
  const last = Math.max(0, explorer.view.length - 1);
  explorer.first = Math.min(Math.max(0, first), last - (last % PER_PAGE));
  const shown = explorer.view.slice(explorer.first, explorer.first + PER_PAGE);
  one("count").textContent = `${grouped(explorer.view.length)} of ${grouped(explorer.data.index.length)} inputs`;
  one("page").textContent = shown.length
    ? `${grouped(explorer.first + 1)} to ${grouped(explorer.first + shown.length)}` : "nothing to show";
  one("previous").disabled = explorer.first === 0;
  one("next").disabled = explorer.first + PER_PAGE >= explorer.view.length;
  showHeads();
  one("body").replaceChildren(...shown.map(rowOf));
}

function showHeads() {
  const heads = columns().map(({ key, title, minor, left }) => {
    const button = element("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      explorer.rising = explorer.sort === key ? !explorer.rising : true;
      explorer.sort = key;
      sortRows();
      one("heads").querySelector(`[data-key="${key}"] button`).focus();
    });
    const sorted = explorer.sort === key ? (explorer.rising ? "ascending" : "descending") : "none";
    const kind = `${minor ? "minor " : ""}${left ? "text" : ""}`;
    return element("th", { scope: "col", "data-key": key, "aria-sort": sorted, class: kind }, button);
  });
  if (explorer.run.images) heads.splice(1, 0, element("th", { scope: "col", class: "text" }, "image"));
  one("heads").replaceChildren(...heads);
}

function rowOf(i, place) {
  const { data, run } = explorer;
  const [head, ...rest] = columns();
  const name = `Open input ${data.index[i]}`;
  const button = element("button", { type: "button", class: "open", tabindex: place ? -1 : 0, "aria-label": name }, head.value(data, i));
  const cells = rest.map(({ text, minor, left }) => element("td", { class: `${minor ? "minor " : ""}${left ? "text" : ""}` }, text(data, i)));
  const row = element("tr", { "data-place": explorer.first + place }, element("th", { scope: "row" }, button));
  if (run.images) row.append(element("td", {}, picture(element("canvas", { "aria-hidden": true }), data.index[i])));
  row.append(...cells);
  return row;
}

function moveByKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: PER_PAGE, PageUp: -PER_PAGE, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  const row = event.target.closest("tr");
  if (step === undefined || !row) return;
  event.preventDefault();
  focusRow(Math.min(Math.max(0, Number(row.dataset.place) + step), explorer.view.length - 1));
}

// Turns to the page of a row if need be; only the row in focus is in the order of Tab.
function focusRow(place) {
  if (place < explorer.first || place >= explorer.first + PER_PAGE) turnTo(place - (place % PER_PAGE));
  for (const button of one("body").querySelectorAll(".open")) {
    const mine = Number(button.closest("tr").dataset.place) === place;
    button.tabIndex = mine ? 0 : -1;
    if (mine) button.focus();
  }
}
