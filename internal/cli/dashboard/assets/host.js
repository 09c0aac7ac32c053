// The page of one host: the cause and what to do, its steps, conditions, pods, events and logs.
import { byId, duration, el, fill, number, plural, problem, sign, text, when } from "./dom.js";

let shown = "";
let parts;
let log = { service: "", text: "", error: "" };

/** leaveHost forgets the host that was shown. */
export function leaveHost(next) {
  shown = next;
  parts = undefined;
  log = { service: "", text: "", error: "" };
  byId("host").replaceChildren(...(next ? [el("p", { class: "muted" }, "Reading ", next)] : []));
}

export function showHost(update, name) {
  if (name !== shown) return;
  if (update.missing) {
    parts = undefined;
    byId("host").replaceChildren(back(), el("h1", {}, name), el("p", {}, update.overview.loading ? "Reading the cluster." : "Host not found. It may have left the cluster."));
    return;
  }
  if (!parts) build(update.logs || []);
  const h = update.host;
  text(parts.name, h.name);
  fill(parts.state, [h.state, h.severity, h.cordoned, h.paused], () => [sign(h.severity), ` ${h.state}`,
    h.cordoned ? el("small", {}, h.cordonedFor ? `cordoned for ${h.cordonedFor}` : "cordoned") : "", h.paused ? el("small", {}, "paused") : ""]);
  fill(parts.cause, [h.severity, h.reason, h.message, h.next, h.since, h.problems], () => cause(h));
  fill(parts.action, [h.plan, h.maintenance, h.failure], () => actions(h));
  fill(parts.steps, h.steps, () => steps(h.steps || []));
  parts.stepsBox.hidden = !(h.steps || []).length;
  fill(parts.facts, [h.versions, h.node, h.address, h.nodeIP, h.podNetworks, h.hostname, h.source, h.machine, h.hostKey], () => facts(h));
  fill(parts.services, h.services, () => services(h.services));
  parts.servicesBox.hidden = !h.services;
  fill(parts.conditions, h.conditions, () => conditions(h.conditions || []));
  fill(parts.pods, update.pods, () => pods(update.pods || {}));
  fill(parts.events, h.events, () => events(h.events || []));
  parts.logBox.hidden = !h.node;
}

const back = () => el("p", { class: "back" }, el("a", { href: "#/" }, "All hosts"));

function section(title, body, attributes) {
  const id = `part-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return el("section", { class: "card", "aria-labelledby": id, ...attributes }, el("h2", { id }, title), body);
}

function build(services) {
  parts = {
    name: el("span"), state: el("span", { class: "state" }), cause: el("div", { class: "problems" }), action: el("div"),
    steps: el("ol", { class: "timeline" }), facts: el("dl", { class: "facts" }), services: el("div"), conditions: el("div"), pods: el("div"), events: el("div"),
    log: el("div", { "aria-live": "polite" }),
  };
  parts.stepsBox = section("Steps of the last join", parts.steps);
  parts.servicesBox = section("Services", parts.services);
  const buttons = services.map((s) => el("button", { type: "button", "aria-pressed": "false", onclick: (e) => readLog(s.name, e.currentTarget) }, s.name));
  parts.logBox = section("Logs", el("div", {}, el("div", { class: "buttons" }, ...buttons), parts.log));
  byId("host").replaceChildren(back(), el("h1", { class: "host" }, parts.name, " ", parts.state), parts.cause, parts.action,
    el("div", { class: "pair" }, parts.stepsBox, section("Host", parts.facts)),
    parts.servicesBox, section("Conditions", parts.conditions), section("Pods", parts.pods), section("Events", parts.events), parts.logBox);
}

function cause(h) {
  const first = { severity: h.severity, reason: h.reason, message: h.message, remedy: h.next, since: h.since, docs: h.docs, object: `WindowsInstance ${h.name}` };
  const others = (h.problems || []).filter((p) => p.reason !== h.reason).map((p) => ({ ...p, hosts: [], total: 0 }));
  return (h.severity === "ok" && !others.length ? [] : [first, ...others]).map((p) => problem(p, "h2"));
}

function actions(h) {
  const made = [];
  if (h.maintenance) {
    const m = h.maintenance;
    made.push(el("section", { class: "card" }, el("h2", {}, `${m.action} in progress`),
      el("ol", { class: "track" }, ...["Drain", "Act", "Verify"].map((s) => el("li", { "aria-current": s === m.step ? "step" : null }, s))),
      el("p", {}, `Step ${m.step} `, when(m.stepStartedAt, "since"), m.version ? `, version ${m.version}` : "", `, disruption ${m.disruption}`), m.message ? el("p", { class: "muted" }, m.message) : null));
  } else if (h.plan) {
    made.push(el("section", { class: "card" }, el("h2", {}, `Next: ${h.plan.action}`),
      el("p", {}, `Disruption ${h.plan.disruption}`, h.plan.waitsFor ? `, waits for ${h.plan.waitsFor}` : ", runs"), h.plan.message ? el("p", { class: "muted" }, h.plan.message) : null));
  }
  if (h.failure) {
    const f = h.failure;
    made.push(el("section", { class: "card" }, el("h2", {}, `${f.action} failed`),
      el("p", {}, f.step ? `In step ${f.step} ` : "", when(f.at), f.attempts ? `, ${plural(f.attempts, "attempt")}` : ""), el("p", { class: "muted" }, f.message || "")));
  }
  return made;
}

/** steps are bars on one scale of time. */
function steps(all) {
  const starts = all.map((s) => new Date(s.startedAt || 0).getTime() / 1000);
  const known = starts.filter((s) => s > 0);
  const begin = Math.min(...known);
  const end = Math.max(...all.map((s, i) => starts[i] + (s.seconds || 0)));
  const scale = Math.max(0.1, end - begin);
  const kind = { Done: "ok", Running: "info", Failed: "error" };
  return all.map((s, i) => {
    const bar = el("span", { class: "bar" });
    if (starts[i] > 0 && known.length) {
      bar.style.marginLeft = `${(Math.max(0, starts[i] - begin) / scale) * 100}%`;
      bar.style.width = `${Math.max(0.5, ((s.seconds || 0) / scale) * 100)}%`;
    }
    return el("li", { class: kind[s.state] || "waits" },
      el("span", { class: "step" }, kind[s.state] ? sign(kind[s.state]) : "", ` ${s.name}`), el("span", { class: "lane", "aria-hidden": "true" }, bar),
      el("span", { class: "took" }, s.startedAt ? duration(s.seconds || 0) : s.state), s.message ? el("p", { class: "muted" }, s.message) : null);
  });
}

function facts(h) {
  const v = h.versions;
  const rows = [
    ["Node", h.node], ["Address", h.address], ["Node address", h.nodeIP === h.address ? "" : h.nodeIP], ["Pod network", (h.podNetworks || []).join(", ")], ["Hostname", h.hostname === h.node ? "" : h.hostname],
    ["Source", h.machine ? `${h.source} ${h.machine}` : h.source], ["Windows", [v.osImage, v.windows].filter(Boolean).join(", ")], ["Kubelet", v.kubelet], ["Runtime", v.runtime],
    ["Version", v.node], ["Desired version", v.desired === v.node ? "" : v.desired], ["Payload", v.payload],
    ["Desired payload", v.payloadDesired === v.payload ? "" : v.payloadDesired], ["Staged payload", v.payloadStaged],
    ["Settings", v.settings ? `${v.settings}${v.settingsCurrent ? "" : " (not up to date)"}` : ""], ["SSH host key", h.hostKey],
  ];
  return rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
}

function table(heads, rows, label) {
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((c) => el("th", { scope: "col" }, c)))),
      el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((c) => el("td", {}, c === null || c === undefined ? "" : c)))))));
}

function services(reported) {
  if (!reported) return [];
  return [reported.outdated ? el("p", { class: "muted" }, "The node does not respond. Its last report:") : null,
    table(["Service", "State", "Waits for"], reported.list.map((s) => [el("span", {}, sign(s.good ? "ok" : "warning"), ` ${s.name}`), s.state, s.waitsFor || ""]), "Services")].filter(Boolean);
}

function conditions(all) {
  const sorted = [...all].sort((a, b) => a.good - b.good);
  if (!sorted.length) return [el("p", { class: "muted" }, "No conditions yet.")];
  return [table(["Condition", "Status", "Reason", "Message", "Since"], sorted.map((c) => [
    el("span", {}, sign(c.good ? "ok" : c.status === "Unknown" ? "info" : "warning"), ` ${c.type}`, c.object === "Node" ? el("small", {}, "Node") : ""),
    c.status, c.reason || "", c.message || "", when(c.since)]), "Conditions")];
}

function pods(list) {
  if (list.denied) return [el("p", {}, "Pods are not shown: ", list.denied)];
  if (!list.known) return [el("p", { class: "muted" }, "No pods were read.")];
  if (!list.total) return [el("p", { class: "muted" }, "The node has no pods.")];
  const items = list.items || [];
  return [table(["Pod", "Status", "Ready", "Restarts", "Address", "Age"], items.map((p) => [
    el("span", {}, sign(p.good ? "ok" : "warning"), ` ${p.name}`), p.status, p.ready, number(p.restarts), p.address || "", when(p.since)]), "Pods"),
  items.length < list.total ? el("p", { class: "muted" }, `${number(items.length)} of ${number(list.total)} pods.`) : null].filter(Boolean);
}

function events(all) {
  if (!all.length) return [el("p", { class: "muted" }, "No events.")];
  return [table(["When", "Event", "Object", "Message"], all.map((e) => [
    when(e.last), el("span", {}, sign(e.type === "Warning" ? "warning" : "ok"), ` ${e.reason}`, e.count > 1 ? el("small", {}, `${number(e.count)} times`) : ""), e.object, e.message]), "Events")];
}

/** readLog fetches the end of a log on request. */
async function readLog(service, button) {
  const host = shown;
  for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
  parts.log.replaceChildren(el("p", { class: "muted" }, `Reading the log of ${service}.`));
  try {
    const answer = await fetch(`api/logs?host=${encodeURIComponent(host)}&service=${encodeURIComponent(service)}`);
    log = answer.ok ? await answer.json() : { service, error: await answer.text() };
  } catch (e) {
    log = { service, error: `kubectl windows dashboard does not respond: ${e.message}` };
  }
  if (host !== shown || !parts) return;
  const lines = log.text ? el("pre", { tabindex: "0", role: "region", "aria-label": `Log of ${service}` }, log.text) : null;
  parts.log.replaceChildren(...[log.error ? el("p", { class: "problem warning" }, log.error) : null, lines,
    lines ? el("p", { class: "muted" }, "End of the log. Select the log again to reload it.") : null, !lines && !log.error ? el("p", { class: "muted" }, "The log is empty.") : null].filter(Boolean));
  if (lines) lines.scrollTop = lines.scrollHeight;
}

