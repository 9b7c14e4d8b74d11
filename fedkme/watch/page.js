"use strict";
// Renews the page by what the server sends: a piece of it where that piece has changed.

let skew = 0, connection = "Connecting.", lost = false;

const piecesOf = (root) => [...root.querySelectorAll("body > header, main > section")];
let sources = piecesOf(document).map((piece) => piece.outerHTML);

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

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Writes what the viewer's clock says, and the state of the connection. */
function tick() {
  const now = Date.now() / 1000 + skew;
  for (const each of document.querySelectorAll("[data-at]")) write(each, clock(Number(each.dataset.at)));
  for (const each of document.querySelectorAll("[data-text]")) {
    const { from, to, text } = each.dataset;
    write(each, text.replace("{}", span(to ? Number(to) - now : now - Number(from))));
  }
  const link = document.getElementById("link");
  if (!link) return;  // a finished run's report has none
  link.className = lost ? "lost" : "";
  write(link, connection);
}

function show(page) {
  const next = piecesOf(new DOMParser().parseFromString(page, "text/html")), there = piecesOf(document);
  const old = next.length === there.length ? sources : [];
  sources = next.map((piece) => piece.outerHTML);
  there.slice(next.length).forEach((piece) => piece.remove());
  next.forEach((piece, place) => {
    if (sources[place] === old[place]) return;
    if (place < there.length) there[place].replaceWith(piece);
    else document.querySelector("main").append(piece);
  });
  tick();
}

function say(text, gone) {
  connection = text;
  lost = gone;
  tick();
}

function connect() {
  const source = new EventSource(`events${location.search}`);
  source.onmessage = (message) => {
    const { at, over, page } = JSON.parse(message.data);
    skew = at - Date.now() / 1000;
    say(over ? "It is over; this is the last that was seen." : "Live.", false);
    if (over) source.close();
    show(page);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED && connection.startsWith("It is over")) return;
    say("Not connected; trying again. What stands here is the last that was seen.", true);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

setInterval(tick, 1000);
say(connection, false);
connect();
