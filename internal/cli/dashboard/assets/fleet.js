// The state of the fleet: one sentence, what to do, the rollout, the settings and the NetworkPolicies.
import { byId, docs, el, fill, hostLink, number, plural, problem, text, when } from "./dom.js";

const order = ["Failed", "NotReady", "Degraded", "Maintenance", "Joining", "Waiting", "Leaving", "Pending", "Ready"];
const stateLabels = {
  Ready: "Ready", Degraded: "degraded", NotReady: "not Ready", Failed: "failed", Joining: "joining", Waiting: "waiting to join",
  Maintenance: "in maintenance", Leaving: "leaving", Pending: "not reported yet",
};
const first = 6;
let all = false;

export function showFleet(o) {
  summary(o);
  unread(o);
  problems(o);
  rollout(o.rollout);
  settings(o.settings);
  policies(o.policies);
}

function summary(o) {
  const { total, states } = o.counts;
  const denied = (o.unread || []).some((u) => u.what === "windowsinstances");
  let sentence = `All ${plural(total, "host")} are healthy`;
  if (total === 1) sentence = "The only host is healthy";
  if (denied) sentence = "Hosts cannot be read";
  else if (o.loading && total === 0) sentence = "Reading the cluster";
  else if (total === 0) sentence = "No hosts yet";
  else if (o.attention > 0) sentence = `${number(o.attention)} of ${plural(total, "host")} ${o.attention === 1 ? "needs" : "need"} attention`;
  else if ((states.Ready || 0) < total) sentence = `${number(states.Ready)} of ${plural(total, "host")} are Ready`;
  text(byId("summary"), sentence);
  const known = order.filter((s) => states[s]);
  fill(byId("counts"), known.map((s) => [s, states[s]]), () =>
    known.map((s) => el("li", { class: `count ${s}` }, el("b", {}, number(states[s])), ` ${stateLabels[s]}`)));
}

function unread(o) {
  const list = o.unread || [];
  byId("unread").hidden = list.length === 0;
  fill(byId("unread-list"), list, () => list.map((u) => el("li", {}, el("b", {}, u.what), ": ", u.why)));
}

function problems(o) {
  const total = o.problems.length;
  byId("problems-section").hidden = total === 0;
  const visible = all ? o.problems : o.problems.slice(0, first);
  fill(byId("problems"), visible, () => visible.map((p) => problem(p)));
  const more = byId("problems-more");
  more.hidden = total <= first;
  text(more, all ? "Show the most urgent" : `Show all ${number(total)}`);
  more.onclick = () => {
    all = !all;
    problems(o);
  };
}

function rollout(r) {
  const box = byId("rollout");
  box.hidden = !r.nodes;
  if (box.hidden) return;
  const bar = byId("rollout-bar");
  bar.hidden = !r.version;
  bar.max = Math.max(1, r.nodes);
  bar.value = r.atVersion;
  text(byId("rollout-text"), r.version ? `${number(r.atVersion)} of ${plural(r.nodes, "node")} have version ${r.version}` : plural(r.nodes, "node"));
  const parts = [];
  if (r.paused) parts.push("Paused by WindowsConfig.");
  if ((r.stoppedBy || []).length) parts.push(`Stopped: the version failed on ${r.stoppedBy.join(", ")}.`);
  if (r.maxUnavailable) parts.push(`${number(r.out)} of at most ${number(r.maxUnavailable)} out of service.`);
  const detail = byId("rollout-detail");
  const moves = r.version && r.atVersion < r.nodes;
  fill(detail, [parts, moves && r.estimatedEnd], () => [parts.join(" "), moves ? when(r.estimatedEnd, " Done") : null].filter(Boolean));
  const groups = [...(r.running || []).map((g) => ({ ...g, runs: true })), ...(r.waiting || [])];
  fill(byId("rollout-groups"), groups, () => groups.map(group));
}

function group(g) {
  const names = (g.hosts || []).slice(0, 5).flatMap((name, i) => [i ? ", " : "", hostLink(name)]);
  const more = g.total - Math.min(5, (g.hosts || []).length);
  return el("li", { class: g.runs ? "runs" : "waits" },
    el("b", {}, g.runs ? g.action : `${g.action} waits`), g.step ? ` · ${g.step}` : "", g.reason ? ` · ${g.reason}` : "", ` · ${plural(g.total, "host")}: `,
    el("span", { class: "names" }, ...names, more > 0 ? ` and ${number(more)} more` : ""),
    g.message ? el("p", { class: "muted" }, g.message) : null,
    g.remedy ? el("p", { class: "muted" }, g.remedy, " ", docs(g.docs)) : null);
}

function settings(s) {
  const box = byId("settings");
  box.hidden = !s.nodes;
  if (box.hidden) return;
  const bar = byId("settings-bar");
  bar.max = Math.max(1, s.nodes);
  bar.value = s.updated;
  text(byId("settings-text"), s.updated >= s.nodes ? `All ${plural(s.nodes, "node")} have the published settings` : `${number(s.updated)} of ${plural(s.nodes, "node")} have the published settings`);
  text(byId("settings-detail"), s.published ? `Settings ${s.published}` : "");
}

function policies(p) {
  const box = byId("policies");
  box.hidden = !p;
  if (box.hidden) return;
  let sentence = `${plural(p.notApplied, "node")} cannot apply some of them as written`;
  if (p.notApplied === 0) sentence = "No node reports a problem";
  text(byId("policies-text"), sentence);
  text(byId("policies-detail"), p.mode === "Report" ? "They are only reported: no pod is restricted." : "Pods are restricted.");
}
