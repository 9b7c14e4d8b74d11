"use strict";
// Shows the view that the server sends; whatever of it is text stays text.

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const shown = new Map();
let view = null, skew = 0;

function make(tag, attributes = {}, ...children) {
  const space = ["svg", "path", "line", "text"].includes(tag) ? "http://www.w3.org/2000/svg" : null;
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

/** Fills a place anew where what it shows is not what it showed: focus and selection stay elsewhere. */
function fill(place, data, build) {
  const key = JSON.stringify(data);
  if (shown.get(place) === key) return;
  shown.set(place, key);
  byId(place).replaceChildren(...build(data).filter((child) => child !== null));
}

function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

function clock(at) {
  const date = new Date(at * 1000), today = new Date().toDateString() === date.toDateString();
  return today ? date.toLocaleTimeString("en-GB") : date.toLocaleString("en-GB").replace(",", "");
}

/** A text with a time that goes on; `{}` stands for it. */
function ticking(text, from, to) {
  return make("span", { "data-text": text, "data-from": from, "data-to": to });
}

function tick() {
  const now = Date.now() / 1000 + skew;
  for (const each of document.querySelectorAll("[data-text]")) {
    const from = each.dataset.from, to = each.dataset.to;
    const text = each.dataset.text.replace("{}", span(to ? Number(to) - now : now - Number(from)));
    if (each.textContent !== text) each.textContent = text;
  }
}

function table(kind, header, rows) {
  const names = header.map((name) => name.replace(">", ""));
  const style = (at) => (header[at].startsWith(">") ? "n" : null);
  const head = names.map((name, at) => make("th", { scope: "col", class: style(at) }, name));
  const lines = rows.map((cells) => make("tr", {}, ...cells.map((cell, at) =>
    at ? make("td", { class: style(at), "data-name": names[at] }, cell)
       : make("th", { scope: "row" }, cell))));
  const found = make("table", { class: kind }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines));
  return make("div", { class: "scroll" }, found);
}

function tiles(entries) {
  return make("dl", { class: "tiles" }, ...entries.map(([name, value, note]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value), make("dd", {}, note))));
}

/** A value over time or rounds, as steps where it holds until the next point. */
function curve(title, points, { top = 0, steps = false, ends = null, caption = "" }) {
  if (points.length < 2) return null;
  const width = 480, height = 150, left = 56, right = 12, foot = 24;
  const [x0, x1] = [points[0][0], points[points.length - 1][0]];
  const most = Math.max(top, ...points.map((point) => point[1])) || 1;
  const x = (value) => left + (width - left - right) * (x1 > x0 ? (value - x0) / (x1 - x0) : 1);
  const y = (value) => 10 + (height - foot - 10) * (1 - value / most);
  const path = points.map(([at, value], place) => place === 0
    ? `M${x(at).toFixed(1)} ${y(value).toFixed(1)}`
    : steps ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const base = y(0);
  const short = (value) => (value && value < 0.01 ? value.toExponential(1) : number.format(Number(value.toPrecision(3))));
  const drawing = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${title}: ${short(points[points.length - 1][1])} now` },
    ...[0, most / 2, most].flatMap((mark) => [
      make("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
      make("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, short(mark))]),
    make("path", { class: "line", d: path }),
    ...(ends ?? []).map((text, at) => make("text", { class: "axis", x: at ? width - right : left, y: base + 18, "text-anchor": at ? "end" : "start" }, text)));
  return make("figure", {}, make("strong", {}, title), drawing, make("figcaption", {}, caption));
}

function stateOf(lane) {
  return make("span", { class: `badge ${lane.state}` }, lane.words);
}

function whyOf(lane) {
  const parts = [lane.why];
  if (lane.since) parts.push(ticking(lane.why ? ", {} so far" : "{} so far", lane.since, null));
  if (lane.due) parts.push(ticking("; without it the run goes on in {}", null, lane.due));
  return parts.some(Boolean) ? make("span", { class: "why" }, ...parts) : "";
}

function cameOf(lane, most) {
  const share = most ? Math.max(lane.seen ? 2 : 0, (100 * lane.seen) / most) : 0;
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${share}%`;
  return make("span", {}, number.format(lane.seen), share ? bar : "");
}

function progressOf(run) {
  if (!run.open && run.share === null) return null;
  const label = run.rounds > 1 ? `round ${number.format(run.done)} of ${number.format(run.rounds)}`
    : run.share !== null ? `${Math.round(100 * run.share)} %` : run.words;
  const bar = make("progress", { max: 1, value: run.share, "aria-label": `Progress of ${run.run}` });
  return make("div", { class: "progress" }, bar, make("span", {}, label),
    run.ends && run.open ? ticking("about {} left", null, run.ends) : null);
}

function runOf(run) {
  const role = view.as.role, most = Math.max(0, ...run.lanes.map((lane) => lane.seen));
  const entries = [["status", run.words, run.ended ? `at ${clock(run.ended)}` : `since ${clock(run.began ?? run.opened)}`]];
  if (run.wanted) entries.push(["rows asked for", number.format(run.wanted), `for ${run.consumer}`]);
  entries.push([role === "owner" ? "of your rows came" : "rows that came", number.format(run.rows),
    run.planned && role !== "owner" ? `the plan expects ${number.format(run.planned)}` : "in this run"]);
  if (run.verdict) entries.push(["verdict", run.verdict, "of the simulation"]);
  const burn = role === "owner" || !run.planned ? [] :
    [[run.began ?? run.opened, run.planned], ...run.came.map(([at, rows]) => [at, Math.max(0, run.planned - rows)])];
  const figures = [
    burn.length > 1 ? curve("Rows left of the plan", burn, { top: run.planned, steps: true, ends: [clock(burn[0][0]), clock(burn[burn.length - 1][0])] }) : null,
    curve("MMD² to the consumer's rows, as told", run.mmd2, { ends: [`round ${run.mmd2[0]?.[0]}`, `round ${run.mmd2[run.mmd2.length - 1]?.[0]}`], caption: "By what rounds see: a mean of D_v with noise, and the public rows beside those that came. The verdict is without both. Known in simulations alone." }),
  ].filter(Boolean);
  const lanes = run.lanes.map((lane) => [lane.owner, stateOf(lane), whyOf(lane),
    lane.rows === null ? "" : number.format(lane.rows), cameOf(lane, most)]);
  return [
    make("h2", { class: "head" }, run.run, make("span", { class: "about" }, [run.kind, run.protocol && run.protocol !== run.kind && `by ${run.protocol}`, `for ${run.consumer}`].filter(Boolean).join(" "))),
    run.waiting ? make("p", { class: "waiting" }, run.waiting) : null,
    progressOf(run),
    tiles(entries),
    run.reason ? make("p", { class: "banner" }, run.reason) : null,
    lanes.length ? make("h3", {}, role === "owner" ? "You" : "Owners") : null,
    lanes.length ? table("wide run-lanes", ["owner", "state", "why", ">rows held", ">rows that came"], lanes) : null,
    run.rest ? make("p", { class: "note" }, run.rest) : null,
    figures.length ? make("div", { class: "pair" }, ...figures) : null,
    run.plan ? make("p", { class: "note" }, run.plan) : null,
  ];
}

function learnedOf(lines) {
  if (!lines.length) return [];
  const observers = [...new Set(lines.flatMap((line) => line.cells.map((cell) => cell.observer)))];
  const marks = { rows: "●", exact: "◑", noisy: "○", nothing: "–" };
  const rows = lines.map((line) => make("tr", {}, make("th", { scope: "row" }, line.rows_of), ...observers.map((observer) => {
    const cell = line.cells.find((each) => each.observer === observer);
    if (!cell) return make("td", { class: "nothing none", "data-name": observer }, make("span", {}, "–"));
    const mark = make("span", { "aria-hidden": "true" }, marks[cell.kind]);
    return make("td", { class: cell.kind, "data-name": observer }, make("span", { title: cell.why }, mark, ` ${cell.words}`));
  })));
  const head = make("tr", {}, make("th", { scope: "col" }, "rows of"), ...observers.map((name) => make("th", { scope: "col" }, name)));
  const found = make("table", { class: "seen" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return [make("h2", {}, "Who learned what, in all runs"),
    make("p", { class: "note" }, "By the curator's ledger, as far as it is written: ● rows as they are, ◑ exact figures, ○ figures with noise, – nothing."),
    view.as.role === "owner" ? make("p", { class: "note" }, "What the consumer and other owners learned of your rows would tell of theirs: your own ledger bounds it (fedkme audit ledger).") : null,
    make("div", { class: "scroll" }, found)];
}

function budgetOf(budget) {
  if (!budget) return [];
  const left = Number(budget.left.toPrecision(3)), spent = budget.spent === null ? "without a bound" : Number(budget.spent.toPrecision(3));
  const ends = budget.curve.length ? [clock(budget.curve[0][0]), clock(budget.curve[budget.curve.length - 1][0])] : null;
  return [make("h2", {}, "Budget of owners' rows towards other owners"),
    tiles([["ε left", String(left), `of ${budget.most} at δ = ${budget.delta.toExponential()}`], ["ε spent", String(spent), "by the sound accountant"]]),
    curve("ε left", budget.curve, { top: budget.most, steps: true, ends })];
}

function eventsOf(events) {
  if (!events.length) return [];
  const lines = events.map((event) => make("li", {}, make("time", {}, clock(event.at)),
    [event.run, event.owner, event.text].filter(Boolean).join(" "), event.why ? make("span", { class: "why" }, `: ${event.why}`) : ""));
  return [make("h2", {}, "Latest events"), make("ol", { class: "events" }, ...lines)];
}

function runsOf(runs) {
  if (runs.length < 2) return [];
  const lines = runs.map((run) => [make("a", { href: `#${encodeURIComponent(run.run)}` }, run.run), run.consumer,
    run.kind, run.words, number.format(run.rows), clock(run.opened)]);
  return [make("h2", {}, "All runs"), table("wide", ["run", "for", "kind", "status", ">rows", "opened"], lines)];
}

function chosen() {
  const name = decodeURIComponent(location.hash.slice(1));
  return view.runs.find((run) => run.run === name) ?? view.runs.find((run) => run.open) ?? view.runs[0];
}

function show() {
  const who = view.as.role === "curator" ? "" : ` as ${view.as.name} sees them`;
  byId("title").textContent = `Runs of ${view.curator || "the curator"}${who}`;
  document.title = `fedkme: runs of ${view.curator}`;
  byId("note").textContent = view.note;
  byId("viewers").hidden = view.viewers.length === 0 && !new URLSearchParams(location.search).has("as");
  fill("as", [view.viewers.length ? view.viewers : ["curator"], view.as], ([viewers, as]) => {
    const own = as.role === "curator" ? "curator" : `${as.role}:${as.name}`;
    return [...new Set([...viewers, own])].map((each) => make("option", { value: each, selected: each === own ? "" : null }, each.replace(":", " ")));
  });
  const run = chosen();
  if (run) fill("run", run, runOf);
  fill("learned", view.learned, learnedOf);
  fill("budget", view.budget, budgetOf);
  fill("events", view.events, eventsOf);
  fill("runs", view.runs.map(({ run, consumer, kind, words, rows, opened }) => ({ run, consumer, kind, words, rows, opened })), runsOf);
  tick();
}

function link(text, lost) {
  byId("link").className = lost ? "lost" : "";
  if (byId("link").textContent !== text) byId("link").textContent = text;
}

function connect() {
  const source = new EventSource(`events${location.search}`);
  source.onmessage = (message) => {
    view = JSON.parse(message.data);
    skew = view.at - Date.now() / 1000;
    link(view.over ? "It is over; this is the last that was seen." : "Live.", false);
    if (view.over) source.close();
    show();
  };
  source.onerror = () => {
    if (view?.over) return;
    link("Not connected; trying again. What stands here is the last that was seen.", true);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

addEventListener("hashchange", () => view && show());
setInterval(tick, 1000);
connect();
