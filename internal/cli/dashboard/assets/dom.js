// What all parts of the page share: elements, times and words. Text is only ever set as text, never as HTML.

export const byId = (id) => document.getElementById(id);

/** el creates an element; it omits attributes that are undefined, null or false. */
export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false && c !== ""));
  return made;
}

/** text sets the text of an element if it differs. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** fill replaces the children of an element, unless key is the same as the last time. */
export function fill(element, key, children) {
  const known = JSON.stringify(key);
  if (element.dataset.key === known) return;
  element.dataset.key = known;
  element.replaceChildren(...children());
}

const words = { error: "Error", warning: "Warning", info: "In progress", ok: "OK" };
const signs = { error: "✕", warning: "!", info: "…", ok: "✓" };

/** severity is a known severity. */
export const severity = (s) => (words[s] ? s : "warning");

/** sign shows how urgent something is, by shape and word and not by color alone. */
export function sign(s) {
  const known = severity(s);
  return el("span", { class: `sign ${known}`, role: "img", "aria-label": words[known] }, signs[known]);
}

export const number = (n) => Number(n || 0).toLocaleString("en");
export const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || `${one}s`}`;

/** duration of some seconds, in one or two units. */
export function duration(seconds) {
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** when is a time that shows how long ago it was; tick keeps it up to date. */
export function when(at, prefix) {
  const date = at ? new Date(at) : undefined;
  if (!date || Number.isNaN(date.getTime()) || date.getFullYear() < 2000) return null;
  const made = el("time", { datetime: date.toISOString(), title: date.toLocaleString(), "data-prefix": prefix || "" });
  made.textContent = ago(made);
  return made;
}

function ago(time) {
  const seconds = (Date.now() - new Date(time.dateTime).getTime()) / 1000;
  const words = seconds < -5 ? `in ${duration(-seconds)}` : seconds < 10 ? "now" : `${duration(seconds)} ago`;
  return `${time.dataset.prefix ? `${time.dataset.prefix} ` : ""}${words}`;
}

/** tick renews the times on the page. */
export function tick() {
  for (const time of document.querySelectorAll("time")) text(time, ago(time));
}

export const hostLink = (name, label) => el("a", { href: `#/host/${encodeURIComponent(name)}` }, label || name);

/** docs is a link to the documentation, if the address is one. */
export function docs(url) {
  if (!url || !url.startsWith("https://")) return null;
  return el("a", { class: "docs", href: url, target: "_blank", rel: "noopener noreferrer" }, "Documentation");
}

/** problem shows what is wrong and, first, what to do. Its hosts are links. */
export function problem(p, level) {
  const total = p.total || (p.hosts || []).length;
  const more = total - (p.hosts || []).length;
  const hosts = (p.hosts || []).flatMap((name, i) => [i ? ", " : "", hostLink(name)]);
  return el("article", { class: `problem ${severity(p.severity)}` },
    el(level || "h3", {}, sign(p.severity), " ", p.reason, total > 1 ? el("small", {}, plural(total, "host")) : null),
    p.remedy ? el("p", { class: "remedy" }, p.remedy) : null,
    p.message ? el("p", { class: "message" }, p.message) : null,
    el("p", { class: "muted" },
      hosts.length ? el("span", { class: "names" }, ...hosts, more > 0 ? ` and ${number(more)} more` : "") : el("span", {}, p.object || ""),
      when(p.since, "since"), docs(p.docs)));
}
