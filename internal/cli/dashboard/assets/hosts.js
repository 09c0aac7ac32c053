// All hosts: an overview of small squares that stays readable with thousands, and a table with a filter.
import { byId, el, hostLink, number, plural, severity, sign, text, when } from "./dom.js";

// The columns of a row, as view.go sends it.
const [NAME, NODE, ADDRESS, STATE, SEVERITY, REASON, ACTION, WAITS, VERSION, SETTINGS, CORDONED, SINCE] = Array.from({ length: 12 }, (_, i) => i);
const urgency = { error: 0, warning: 1, info: 2, ok: 3 };
const perPage = window.matchMedia("(max-width: 760px)").matches ? 15 : 50;
const columns = [
  { title: "Host", value: (r) => r[NAME] },
  { title: "State", value: (r) => urgency[severity(r[SEVERITY])] },
  { title: "Reason", value: (r) => r[REASON] },
  { title: "Next", value: (r) => `${r[ACTION]} ${r[WAITS]}` },
  { title: "Node", value: (r) => r[NODE] || "" },
  { title: "Address", value: (r) => r[ADDRESS] },
  { title: "Version", value: (r) => r[VERSION] || "" },
  { title: "Since", value: (r) => -r[SINCE] },
];

const hosts = new Map(); // by name
const squares = new Map();
const lines = new Map(); // rows of the table that exist
let sorted = { column: 1, down: false };
let page = 0;

/** applyRows applies an update from the server. */
export function applyRows(update) {
  if (update.full) hosts.clear();
  for (const row of update.rows || []) hosts.set(row[NAME], row);
  for (const name of update.removed || []) hosts.delete(name);
  if (update.full || (update.rows || []).length || (update.removed || []).length) {
    drawSquares(update);
    drawStates();
    drawTable();
  }
  byId("hosts-section").hidden = hosts.size === 0;
  byId("grid").hidden = hosts.size < 2;
}

export function focusFilter() {
  byId("filter").focus();
}

/** drawSquares keeps the position of each host: they are ordered by name. */
function drawSquares(update) {
  const grid = byId("grid");
  const same = !update.full && (update.removed || []).length === 0 && (update.rows || []).every((r) => squares.has(r[NAME]));
  if (!same) {
    squares.clear();
    const names = [...hosts.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    for (const name of names) squares.set(name, el("a", { href: `#/host/${encodeURIComponent(name)}`, tabindex: "-1" }));
    grid.className = `grid ${names.length > 3000 ? "tiny" : names.length > 400 ? "small" : ""}`;
    grid.replaceChildren(...squares.values());
  }
  for (const row of same ? update.rows || [] : hosts.values()) {
    const square = squares.get(row[NAME]);
    const look = `${severity(row[SEVERITY])}${row[CORDONED] ? " cordoned" : ""}`;
    if (square.className !== look) square.className = look;
    square.title = `${row[NAME]}: ${row[STATE]}${row[REASON] && row[REASON] !== row[STATE] ? `, ${row[REASON]}` : ""}`;
  }
}

function drawStates() {
  const counts = new Map();
  let attention = 0;
  for (const row of hosts.values()) {
    counts.set(row[STATE], (counts.get(row[STATE]) || 0) + 1);
    if (urgency[severity(row[SEVERITY])] < 2) attention++;
  }
  const options = [["", `all (${number(hosts.size)})`], ["!", `needs attention (${number(attention)})`], ...[...counts].sort().map(([s, n]) => [s, `${s} (${number(n)})`])];
  const select = byId("state");
  const key = JSON.stringify(options);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, label]) => el("option", { value }, label)));
  select.value = options.some(([value]) => value === chosen) ? chosen : "";
}

/** matching returns the hosts that match the filter, in order. */
function matching() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const state = byId("state").value;
  const rows = [...hosts.values()].filter((r) => {
    if (state === "!" ? urgency[severity(r[SEVERITY])] > 1 : state && r[STATE] !== state) return false;
    if (!words.length) return true;
    const all = [r[NAME], r[NODE], r[ADDRESS], r[STATE], r[REASON], r[ACTION], r[WAITS], r[VERSION]].join(" ").toLowerCase();
    return words.every((w) => all.includes(w));
  });
  const value = columns[sorted.column].value;
  const sign = sorted.down ? -1 : 1;
  return rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    const by = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
    return by ? by * sign : a[NAME].localeCompare(b[NAME], "en", { numeric: true });
  });
}

function drawTable() {
  const rows = matching();
  const pages = Math.max(1, Math.ceil(rows.length / perPage));
  page = Math.min(page, pages - 1);
  const visible = rows.slice(page * perPage, (page + 1) * perPage);
  text(byId("shown"), rows.length === hosts.size ? plural(rows.length, "host") : `${number(rows.length)} of ${plural(hosts.size, "host")}`);
  byId("pager").hidden = pages === 1;
  text(byId("page-number"), `Page ${page + 1} of ${pages}`);
  byId("previous").disabled = page === 0;
  byId("next").disabled = page === pages - 1;
  const body = byId("rows");
  const wanted = visible.map(line);
  for (const [name, known] of lines) {
    if (!visible.some((r) => r[NAME] === name)) {
      known.element.remove();
      lines.delete(name);
    }
  }
  wanted.forEach((row, i) => {
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null);
  });
}

/** line returns the row of a host. The element stays the same, so that it keeps the focus, and its content is updated when the host changed. */
function line(row) {
  const key = JSON.stringify(row);
  const known = lines.get(row[NAME]);
  if (known && known.key === key) return known.element;
  const next = row[ACTION] ? `${row[ACTION]}${row[WAITS] ? ` · ${row[WAITS]}` : ""}` : "";
  const values = [
    known ? known.link : hostLink(row[NAME]),
    el("span", {}, sign(row[SEVERITY]), " ", row[STATE], row[CORDONED] ? el("small", {}, "cordoned") : null),
    row[REASON] === row[STATE] ? "" : row[REASON], next, row[NODE] === row[NAME] ? "" : row[NODE] || "", row[ADDRESS] === row[NAME] ? "" : row[ADDRESS],
    el("span", {}, row[VERSION] || "", row[SETTINGS] || !row[NODE] ? null : el("small", {}, "old settings")),
    row[SINCE] ? when(row[SINCE] * 1000) : "",
  ];
  const element = known ? known.element : el("tr");
  element.replaceChildren(...values.map((v, i) => el(i ? "td" : "th", { "data-label": columns[i].title, scope: i ? null : "row" }, v)));
  lines.set(row[NAME], { key, element, link: values[0] });
  return element;
}

function heads() {
  byId("heads").replaceChildren(...columns.map((c, i) => el("th", { scope: "col", "aria-sort": sorted.column === i ? (sorted.down ? "descending" : "ascending") : null },
    el("button", { type: "button", onclick: () => sortBy(i) }, c.title))));
}

function sortBy(i) {
  sorted = { column: i, down: sorted.column === i && !sorted.down };
  heads();
  drawTable();
  byId("heads").children[i].firstChild.focus();
}

function turn(by) {
  page += by;
  drawTable();
  byId("table").scrollIntoView({ block: "start" });
}

heads();
byId("filter").addEventListener("input", () => { page = 0; drawTable(); });
byId("state").addEventListener("change", () => { page = 0; drawTable(); });
byId("previous").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
