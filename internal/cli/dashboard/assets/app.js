// The page: which part is shown, and the connection to kubectl windows dashboard. The server sends what changed; nothing is polled.
import { byId, el, text, tick, when } from "./dom.js";
import { showFleet } from "./fleet.js";
import { applyRows, focusFilter } from "./hosts.js";
import { showHost, leaveHost } from "./host.js";

let source;
let shown;
let answered = false;

/** route shows the part that the address names. Other fragments, such as that of the link to the content, are ignored. */
function route() {
  const hash = location.hash || "#/";
  if (!hash.startsWith("#/")) return;
  const host = hash.startsWith("#/host/") ? decodeURIComponent(hash.slice(7)) : "";
  if (host === shown) return;
  const first = shown === undefined;
  shown = host;
  byId("fleet").hidden = host !== "";
  byId("host").hidden = host === "";
  leaveHost(host);
  document.title = host ? `${host} - Windows nodes` : "Windows nodes";
  if (!first) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  connect(host);
}

function connect(host) {
  if (source) source.close();
  source = new EventSource(host ? `api/events?host=${encodeURIComponent(host)}` : "api/events");
  source.addEventListener("fleet", (e) => {
    const update = JSON.parse(e.data);
    applyRows(update);
    showFleet(update.overview);
    common(update.overview);
  });
  source.addEventListener("host", (e) => {
    const update = JSON.parse(e.data);
    showHost(update, host);
    common(update.overview);
  });
  source.addEventListener("failed", (e) => state("lost", JSON.parse(e.data).error));
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {
      state("lost", answered ? "This session has ended. Run kubectl windows dashboard again, and open the address that it prints." :
        "This page is not authorized. Open the address that kubectl windows dashboard printed.");
    } else {
      state("lost", "kubectl windows dashboard does not respond. This page may be out of date.");
    }
  };
}

/** common updates what every part of the page shows. */
function common(overview) {
  answered = true;
  text(byId("cluster"), overview.cluster ? `${overview.cluster} · ${overview.namespace}` : overview.namespace);
  const operator = overview.operator || {};
  text(byId("operator"), operator.found ? `Operator ${operator.version || operator.image || ""}` : "");
  if (overview.lost) {
    state("lost", "The API server does not respond: ", overview.lost.why, overview.lost.since);
  } else {
    state(overview.loading ? "reading" : "live");
  }
  document.documentElement.dataset.ready = overview.loading ? "" : "yes";
}

/** state shows whether the page is up to date. */
function state(now, why, detail, since) {
  const connection = byId("connection");
  connection.className = `connection ${now}`;
  text(connection, { live: "Live", reading: "Reading", lost: "Not up to date" }[now]);
  const banner = byId("lost");
  banner.hidden = now !== "lost";
  const message = `${why || ""}${detail || ""}`;
  if (now === "lost" && banner.dataset.message !== message) {
    banner.dataset.message = message;
    banner.replaceChildren(el("strong", {}, "Not up to date. "), message, " ", when(since, "since") || "");
  } else if (now !== "lost") {
    delete banner.dataset.message;
  }
}

document.addEventListener("keydown", (e) => {
  const typing = e.target.closest("input, select, textarea");
  if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    if (shown) {
      location.hash = "#/";
      route(); // now: the event hashchange comes later, and would move the focus away
    }
    focusFilter();
  } else if (e.key === "Escape" && shown) {
    location.hash = "#/";
  }
});

window.addEventListener("hashchange", route);
setInterval(tick, 10000);
route();
