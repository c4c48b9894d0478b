"use strict";
// A report draws itself: each block of the page is unpacked when it is first needed.

async function unpack(name) {
  const text = document.getElementById("block-" + name).textContent;
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const scripts = {};
function library(name) {
  scripts[name] ??= unpack(name).then((text) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  }));
  return scripts[name];
}

// ---- figures ---------------------------------------------------------------------------------

async function draw(div) {
  if (div.dataset.state) return;
  div.dataset.state = "drawing";
  try {
    const [text] = await Promise.all([unpack("figure-" + div.dataset.figure), library("plotly")]);
    const { data, layout } = JSON.parse(text);
    if (div.parentElement.clientWidth < 560 && layout.showlegend !== false) {
      // One below the other, the names of a legend need a line each. A figure may be wider than the page.
      const names = data.filter((trace) => trace.name && trace.showlegend !== false).length;
      const least = (layout.margin?.t ?? 64) + 20 * names;
      layout.margin = { ...layout.margin, t: least };
      layout.legend = { ...layout.legend, orientation: "v" };
      layout.height += 20 * names;
      div.style.height = `${layout.height}px`;
    }
    await Plotly.newPlot(div, data, layout, { responsive: true, displaylogo: false });
    div.on("plotly_click", (event) => {
      const row = event.points.map((point) => point.customdata).find(Number.isInteger);
      if (row !== undefined) show(row);
    });
    div.dataset.state = "drawn";
  } catch (error) {
    div.dataset.state = "failed";
    div.textContent = "This figure could not be drawn: " + error.message;
    console.error(error);
  }
}

const figures = [...document.querySelectorAll(".figure")];
const near = new IntersectionObserver(
  (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
  { rootMargin: "400px" },
);
figures.forEach((div) => near.observe(div));
// What is printed, archived or taken as a picture is often not scrolled. So the others follow, one at a time.
const idle = () => new Promise((resolve) => (window.requestIdleCallback ?? setTimeout)(resolve));
(async () => {
  for (const div of figures) {
    await idle();
    await draw(div);
  }
})();
window.addEventListener("beforeprint", () => figures.forEach(draw));

// ---- points ----------------------------------------------------------------------------------

let points;
function read() {
  points ??= unpack("points").then(JSON.parse);
  return points;
}

function passes(wanted, value) {
  const range = /^\s*(-?[\d.eE+-]+)\s*\.\.\s*(-?[\d.eE+-]+)\s*$/.exec(wanted);
  if (range) return value !== null && value >= +range[1] && value <= +range[2];
  const compared = /^\s*(<=|>=|<|>|=)\s*(-?[\d.eE+-]+)\s*$/.exec(wanted);
  if (!compared) return String(value ?? "").toLowerCase().includes(wanted.trim().toLowerCase());
  if (value === null) return false;
  const [, sign, text] = compared;
  const bound = Number(text);
  return { "<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound,
    "=": value === bound }[sign];
}

// What an evaluation left is shown as an image: in an SVG no script runs, and it asks for nothing.
async function picture(row, image) {
  image.hidden = !document.getElementById(`block-image-${row}`);
  if (image.hidden) image.removeAttribute("src");
  else image.src = await unpack(`image-${row}`);
  return image;
}

// Ticked points are compared: the second of two minus the first, or on a logarithmic scale their factor.
const chosen = [];
function ticked(cell) {
  const { row, c0 } = cell.getData();
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = chosen.includes(row);
  box.ariaLabel = `compare ${c0}`;
  box.addEventListener("change", () => {
    if (box.checked) chosen.push(row);
    else chosen.splice(chosen.indexOf(row), 1);
    compare();
  });
  return box;
}

function difference([first, second], numeric, log) {
  if (first === second) return "";
  if (!numeric || first === null || second === null) return "differs";
  if (log && first > 0 && second > 0) return `times ${(second / first).toPrecision(4)}`;
  return `${second > first ? "+" : ""}${Number((second - first).toPrecision(4))}`;
}

function line(kind, cells) {
  const row = document.createElement("tr");
  cells.forEach((text, i) => {
    const cell = document.createElement(i ? kind : "th");
    cell.textContent = text ?? "";
    row.append(cell);
  });
  return row;
}

async function compare() {
  const { names, numeric, log, rows, archive, listed } = await read();
  const div = document.getElementById("beside");
  const at = chosen.map((row) => (listed ? listed.indexOf(row) : row));
  const two = at.length === 2;
  div.hidden = at.length < 2;
  if (div.hidden) return;
  const ids = at.map((i) => rows[0][i]);
  div.querySelector("thead").replaceChildren(line("th", ["", ...ids, ...(two ? ["difference"] : [])]));
  div.querySelector("tbody").replaceChildren(...names.flatMap((name, i) => {
    const values = at.map((r) => rows[i][r]);
    if (i === 0 || values.every((value) => value === null || value === "")) return [];
    const more = two ? [difference(values, numeric[i], log[i])] : [];
    const made = line("td", [name, ...values, ...more]);
    if (values.every((value) => value === values[0])) made.className = "same";
    return [made];
  }));
  const shown = await Promise.all(chosen.map(async (row, i) => {
    const image = await picture(row, document.createElement("img"));
    image.alt = image.title = `Proposal ${ids[i]}`;
    return image;
  }));
  div.querySelector(".pictures").replaceChildren(...shown.filter((image) => !image.hidden));
  div.querySelector("pre").textContent =
    `dngo audit ${archive} ${ids.map((id) => `--proposal ${id}`).join(" ")}`;
}

async function tabulate(div) {
  const [{ names, numeric, hidden, rows, listed }] = await Promise.all([read(), library("tabulator")]);
  const field = (i) => "c" + i; // names are a user's: a dot in one would be a path to Tabulator
  const tick = {
    title: "", formatter: ticked, headerSort: false, width: 34, hozAlign: "center", frozen: true,
  };
  const columns = names
    .map((name, i) => ({
      title: name.replace(/&/g, "&amp;").replace(/</g, "&lt;"), field: field(i),
      headerFilter: "input", headerFilterFunc: passes, headerFilterPlaceholder: "filter",
      sorter: numeric[i] ? "number" : "string", sorterParams: { alignEmptyValues: "bottom" },
      hozAlign: numeric[i] ? "right" : "left", visible: !hidden[i], minWidth: 80, maxInitialWidth: 220,
    }));
  const data = rows[0].map((_, r) => {
    const row = { row: listed ? listed[r] : r };
    rows.forEach((column, i) => { row[field(i)] = column[r]; });
    return row;
  });
  columns.unshift(tick);
  const table = new Tabulator(div, { data, columns, index: "row", height: "30rem", layout: "fitData" });
  const count = (found) => {
    document.getElementById("found").textContent =
      `${found.toLocaleString("en")} of ${data.length.toLocaleString("en")} points`;
  };
  table.on("dataFiltered", (filters, found) => count(found.length));
  table.on("rowClick", (event, row) => {
    if (event.target.type !== "checkbox") show(row.getData().row);
  });
  table.on("tableBuilt", () => { div.dataset.state = "drawn"; });
  count(data.length);
}

const table = document.getElementById("table");
if (table) {
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    tabulate(table).catch((error) => {
      table.textContent = "The table could not be shown: " + error.message;
      console.error(error);
    });
  }, { rootMargin: "200px" }).observe(table);
}

// ---- one point -------------------------------------------------------------------------------

const detail = document.getElementById("detail");
async function show(row) {
  if (!document.getElementById("block-points")) return;
  const { names, rows, archive, listed } = await read();
  const at = listed ? listed.indexOf(row) : row;
  if (at < 0) return;
  const id = rows[0][at];
  detail.querySelector("h2").textContent = "Proposal " + id;
  const list = detail.querySelector("dl");
  list.replaceChildren();
  names.forEach((name, i) => {
    const value = rows[i][at];
    if (i === 0 || value === null || value === "") return;
    const term = document.createElement("dt");
    const given = document.createElement("dd");
    term.textContent = name;
    given.textContent = String(value);
    list.append(term, given);
  });
  await picture(row, detail.querySelector("img"));
  const page = detail.querySelector("pre");
  page.textContent = `dngo audit ${archive} --proposal ${id}`;
  detail.hidden = false;
  if (document.body.hasAttribute("data-served")) {
    const answer = await fetch("audit/" + encodeURIComponent(id) + location.search);
    if (answer.ok) page.textContent = await answer.text();
  }
}

document.getElementById("close").addEventListener("click", () => { detail.hidden = true; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") detail.hidden = true; });
document.querySelectorAll("tr[data-row]").forEach((line) => {
  const open = () => show(Number(line.dataset.row));
  line.addEventListener("click", open);
  line.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
});

// ---- while the study runs (`dngo serve`; the address of the page holds its token) --------------

if (document.body.hasAttribute("data-served")) {
  const version = document.querySelector("meta[name=dngo-version]").content;
  const live = document.getElementById("live");
  const act = document.getElementById("act");
  let touched = 0;
  ["pointerdown", "keydown", "wheel"].forEach((kind) =>
    window.addEventListener(kind, () => { touched = Date.now(); }, { passive: true }));
  const ask = async () => {
    try {
      const found = await (await fetch("status.json" + location.search)).json();
      live.hidden = false;
      live.textContent = found.text;
      offer(found.withdrawable ?? []);
      // Not under the hands of somebody who is looking at something.
      if (found.version !== version && Date.now() - touched > 10000 && detail.hidden && !act?.open) location.reload();
    } catch {
      live.hidden = false;
      live.textContent = "dngo serve has ended: this is the last state.";
    }
  };
  // What can be withdrawn now, as a person types.
  const offer = (names) => document.getElementById("withdrawable")?.replaceChildren(...names.map((name) => {
    const option = document.createElement("option");
    option.value = name;
    return option;
  }));
  // The key says which act this is: one that is sent again, as its answer was lost, happens once.
  const fresh = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
  act?.querySelectorAll("form").forEach((form) => {
    const said = document.getElementById("said"), button = form.querySelector("button");
    let key = fresh();
    form.addEventListener("input", () => { key = fresh(); });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      form.after(said);
      const fields = Object.fromEntries(new FormData(form));
      const body = JSON.stringify({ key, act: form.dataset.act, fields });
      try {
        const answer = await fetch("act" + location.search,
          { method: "POST", headers: { "Content-Type": "application/json" }, body });
        const found = answer.ok ? await answer.json() : { said: [await answer.text()] };
        said.className = found.done ? "done" : "refused";
        said.textContent = found.said.join("\n");
        key = fresh();
        if (found.done) form.reset();
      } catch {
        said.className = "refused";
        said.textContent = "No answer came. Press the button again: the act happens once.";
      }
      button.disabled = false;
      ask();
    });
  });
  ask();
  setInterval(ask, 3000);
}
