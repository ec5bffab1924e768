// Starts the page: rows first, then the plotting library, which is most of the file.

function applyTheme() {
  const chosen = one("theme").value;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = chosen === "auto" ? system : chosen;
  if (!page) return;
  showToggles();
  drawFigure();
  if (one("detail").open) openInput(opened);
}

function startTheme() {
  const kept = "sigmax-theme";
  try { one("theme").value = localStorage.getItem(kept) ?? "auto"; } catch { /* a browser may forbid it to files */ }
  if (!one("theme").value) one("theme").value = "auto";
  one("theme").addEventListener("change", () => {
    try { localStorage.setItem(kept, one("theme").value); } catch { /* it then lasts as long as the page */ }
    applyTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  applyTheme();
}

function startDetail() {
  const dialog = one("detail");
  one("detail-close").addEventListener("click", () => dialog.close());
  one("detail-previous").addEventListener("click", () => step(-1));
  one("detail-next").addEventListener("click", () => step(1));
  dialog.addEventListener("close", () => { remember(""); focusRow(opened); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    const scrolls = event.target.closest(".scroll"); // there the arrows scroll
    if (event.key === "ArrowLeft" && !scrolls) step(-1);
    if (event.key === "ArrowRight" && !scrolls) step(1);
  });
  document.addEventListener("keydown", (event) => {
    const writing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    if (event.key !== "/" || writing || dialog.open) return;
    event.preventDefault();
    one("find").focus();
  });
}

function step(by) {
  const place = opened + by;
  if (place >= 0 && place < explorer.view.length) openInput(place);
}

// The address names the input that is open, so that it can be passed on.
function remember(hash) {
  try { history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search); } catch { /* not in every browser */ }
}

async function openFromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = page.runs.findIndex(({ name }) => name === asked.get("run"));
  if (number < 0) return;
  await chooseRun(number);
  const i = explorer.data.index.indexOf(Number(asked.get("input")));
  if (i < 0) return;
  if (!explorer.view.includes(i)) clearFilters(); // the address goes before a filter that would hide its input
  openInput(explorer.view.indexOf(i));
}

async function loadPlotly() {
  document.head.append(element("script", {}, await unpacked("plotly")));
  if (!window.Plotly) throw new Error("plotly.js did not start");
}

async function start() {
  if (!("DecompressionStream" in window)) {
    throw new Error("This browser is too old to unpack the data of the page; any of the year 2023 or later will do");
  }
  page = JSON.parse(await unpacked("data-page"));
  startFigures();
  startRows();
  startDetail();
  await chooseRun(0);
  await new Promise((shown) => { setTimeout(shown); }); // let the rows be seen
  await loadPlotly();
  drawFigure();
  await openFromAddress();
  window.addEventListener("hashchange", openFromAddress);
  document.documentElement.dataset.ready = Math.ceil(performance.now());
}

startTheme();
start().catch((error) => {
  one("problem").hidden = false;
  one("problem").textContent = error.message;
  console.error(error);
});
