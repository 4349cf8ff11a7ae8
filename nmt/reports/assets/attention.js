// Draws the attention of a sentence: every head as a small map, a large map, lines between pieces, the figures of the
// paper, and one piece through all heads.
"use strict";

// A weight of 1 in the integers of the page.
const UNITS = 10_000;
const COLOURS = 8;
// Lines of similar weight share a path. Weights are rounded to this many levels; a weight at level 0 is not drawn.
const LEVELS = 10;
const STRONGEST = 6;
// More heads have narrow columns in the overview; a map of more columns has a row of its own.
const MANY_HEADS = 10;
const LONG = 36;
// A small map is drawn at least this large, and scaled down by the browser, so that all its rows look equally high.
const SMALLEST_SIDE = 96;
const SVG = "http://www.w3.org/2000/svg";
// Down and right.
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const find = (selector, parent = document) => parent.querySelector(selector);
const all = (selector, parent = document) => [...parent.querySelectorAll(selector)];

const sentences = JSON.parse(find("script.weights").textContent);
for (const each of sentences) Object.values(each.attentions).forEach(prepare);
const state = { sentence: sentences[0], name: "encoder", layer: 0, heads: new Set([0]), view: null };
// The mean over the heads that are shown.
let shown = null;
// The piece that is followed: { side: "queries" or "keys", index, other: the index on the other side or null }.
let pinned = null;
let pointed = null;

const choiceOfSentence = find(".sentence-choice select");
const switches = all(".attention-choice input");
const exploring = find(".exploring");
choiceOfSentence?.addEventListener("change", showSentence);
for (const each of switches) each.addEventListener("change", () => showAttention(each.value));
exploring.addEventListener("pointermove", pointAt);
exploring.addEventListener("pointerleave", () => point(null));
exploring.addEventListener("click", pinAt);
exploring.addEventListener("focusin", pinFocused);
exploring.addEventListener("focusout", releaseFocused);
exploring.addEventListener("keydown", move);
showSentence();

// --- The weights ---

// Weights as fractions. The mean of a layer's heads is a map behind those of the heads.
function prepare(attention) {
  attention.weights = attention.weights.map((maps) => {
    const heads = maps.map((map) => map.map((row) => row.map((units) => units / UNITS)));
    return [...heads, meanOf(heads)];
  });
}

function meanOf(maps) {
  if (maps.length === 1) return maps[0];
  return maps[0].map((row, i) => row.map((_, j) => maps.reduce((sum, map) => sum + map[i][j], 0) / maps.length));
}

function attention() {
  return state.sentence.attentions[state.name];
}

function headCount() {
  return attention().weights[0].length - 1;
}

function headName(head) {
  return head < headCount() ? `head ${head + 1}` : "mean of heads";
}

// --- The state ---

function showSentence() {
  state.sentence = sentences[choiceOfSentence?.selectedIndex ?? 0];
  find(".pair .source").textContent = state.sentence.source;
  find(".pair .target").textContent = state.sentence.target;
  showFigures();
  // A browser may restore the switch of an earlier visit.
  showAttention(switches.find((each) => each.checked).value);
}

// Another attention has other pieces, layers and heads.
function showAttention(name) {
  pinned = pointed = null;
  Object.assign(state, { name, layer: 0, heads: new Set([0]), view: null });
  find(".about").textContent = attention().legend;
  showStrips();
  showOverview();
  makeChoices();
  showHeads();
}

function showHeads(changes = {}) {
  Object.assign(state, { view: null }, changes);
  shown = meanOf([...state.heads].map((head) => attention().weights[state.layer][head]));
  showChoices();
  showSelection();
  showMap();
  find(".drawn").replaceChildren();
  linesBetween(find(".drawn"), attention());
  all(".drawn .pieces").forEach((list) => followable(list));
  follow();
}

function showView(number) {
  const { layer, heads, piece } = state.sentence.views[number];
  switches.find((each) => each.value === "encoder").checked = true;
  showAttention("encoder");
  pinned = piece === null ? null : { side: "queries", index: piece, other: null };
  showHeads({ layer, heads: new Set(heads), view: number });
}

// --- Choices ---

function makeChoices() {
  const choices = ["view", "layer", "head"].map((name) => find(`.${name}-choice`));
  for (const each of choices) each.replaceChildren(each.firstElementChild);
  const [viewChoice, layerChoice, headChoice] = choices;
  state.sentence.views.forEach((view, number) => button(viewChoice, view.name, () => showView(number)));
  viewChoice.hidden = !state.sentence.views.length;
  attention().weights.forEach((_, layer) => {
    const input = chip(layerChoice, "radio", layer + 1, () => showHeads({ layer }));
    input.name = "layer";
  });
  attention().weights[0].forEach((_, head) => {
    const isMean = head === headCount();
    chip(headChoice, "checkbox", isMean ? headName(head) : head + 1, () => switchHead(head), isMean ? "" : `head ${headClass(head)}`);
  });
  button(headChoice, "all", () => showHeads({ heads: new Set(Array(headCount()).keys()) }));
}

function showChoices() {
  const names = [...state.heads].sort((a, b) => a - b);
  const which = names.length > 1 ? `heads ${names.map((head) => head + 1).join(", ")}` : headName(names[0]);
  find(".explorer .title").textContent = `${attention().title}: layer ${state.layer + 1}, ${which}`;
  all(".view-choice button").forEach((each, number) => each.setAttribute("aria-pressed", String(number === state.view)));
  const view = state.sentence.views[state.view];
  find(".how").hidden = !view;
  find(".how").textContent = view ? `${view.criterion} ${view.result}` : "";
  all(".layer-choice input").forEach((input, layer) => { input.checked = layer === state.layer; });
  all(".head-choice input").forEach((input, head) => { input.checked = state.heads.has(head); });
}

// The mean stands alone; at least one head stays on.
function switchHead(head) {
  const average = headCount();
  const heads = new Set(head === average ? [] : state.heads);
  heads.delete(average);
  if (!heads.delete(head) || !heads.size) heads.add(head);
  showHeads({ heads });
}

// --- The overview ---

// The pieces in a line: what a reader follows through all heads.
function showStrips() {
  const { rows, columns } = attention();
  const strips = find(".strips");
  strips.replaceChildren();
  const lists = state.name === "memory" ? [["rows", "queries", rows], ["columns", "keys", columns]] : [["pieces", "queries", rows]];
  for (const [name, side, pieces] of lists) {
    const strip = add(strips, "div");
    add(strip, "span", "strip-name", name);
    followable(pieceList(strip, pieces, side));
  }
}

// A table of small maps: one row per layer, one column per head.
function showOverview() {
  const { rows, columns, weights } = attention();
  const heads = headCount();
  const table = find(".overview");
  table.replaceChildren();
  table.classList.toggle("many", heads > MANY_HEADS);
  table.style.setProperty("--heads", heads + 1);
  // A very oblong map would not fit its place.
  table.style.setProperty("--shape", Math.min(Math.max(columns.length / rows.length, 0.6), 1.6));
  const header = add(add(table, "thead"), "tr");
  add(header, "td");
  for (let head = 0; head < heads; head++) heading(header, "head ", head + 1, "col");
  heading(header, "", "mean", "col");
  const body = add(table, "tbody");
  weights.forEach((maps, layer) => {
    const row = add(body, "tr");
    heading(row, "layer ", layer + 1, "row");
    maps.forEach((map, head) => {
      const cell = add(row, "td", head < heads ? headClass(head) : "");
      cell.title = `layer ${layer + 1}, ${headName(head)}`;
      Object.assign(cell.dataset, { layer, head });
      cell.addEventListener("click", () => { cell.focus(); showHeads({ layer, heads: new Set([head]) }); });
      drawMap(add(cell, "canvas"), map);
    });
  });
}

function heading(row, word, name, scope) {
  const made = add(row, "th");
  made.scope = scope;
  add(made, "span", "word", word);
  made.append(name);
}

// The opacity is the square root of the weight, so that low weights stay visible.
function drawMap(canvas, map) {
  const size = Math.ceil(SMALLEST_SIDE / Math.max(map.length, map[0].length));
  canvas.width = map[0].length * size;
  canvas.height = map.length * size;
  const context = canvas.getContext("2d");
  context.fillStyle = "#0072b2";
  map.forEach((row, i) => row.forEach((value, j) => {
    context.globalAlpha = Math.sqrt(value);
    context.fillRect(j * size, i * size, size, size);
  }));
}

function showSelection() {
  const cells = all("td[data-head]");
  for (const cell of cells) {
    const isShown = Number(cell.dataset.layer) === state.layer && state.heads.has(Number(cell.dataset.head));
    cell.setAttribute("aria-selected", String(isShown));
    cell.tabIndex = -1;
  }
  // The tab key reaches the first head that is shown.
  cells.find((cell) => cell.getAttribute("aria-selected") === "true").tabIndex = 0;
}

// --- The large map ---

function showMap() {
  const { rows, columns } = attention();
  const large = find(".large");
  large.replaceChildren();
  const frame = add(large, "div", "frame");
  frame.style.setProperty("--rows", rows.length);
  frame.style.setProperty("--columns", columns.length);
  frame.style.setProperty("--letters", Math.max(...[...rows, ...columns].map(lettersOf)));
  followable(pieceList(frame, columns, "keys"), -1);
  followable(pieceList(frame, rows, "queries"), -1);
  const cells = addSvg(frame, "svg", { class: "cells", viewBox: `0 0 ${columns.length} ${rows.length}`, preserveAspectRatio: "none" });
  shown.forEach((row, i) => row.forEach((value, j) => {
    const opacity = Math.sqrt(value);
    if (opacity > 0.03) addSvg(cells, "rect", { x: j + 0.03, y: i + 0.03, width: 0.94, height: 0.94, "fill-opacity": opacity.toFixed(3) });
  }));
  addSvg(cells, "rect", { class: "band" });
  find(".panes").classList.toggle("wide-map", columns.length > LONG);
}

// --- Lines, and the figures of the paper ---

function linesBetween(parent, { rows, columns }) {
  const height = Math.max(rows.length, columns.length);
  const lines = add(parent, "div", "lines");
  lines.style.setProperty("--pieces", height);
  pieceList(lines, rows, "queries");
  addSvg(lines, "svg", { class: "strokes", viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  pieceList(lines, columns, "keys");
  return lines;
}

// The lines of some heads of a layer; if a piece is followed, of this piece alone.
function drawStrokes(lines, maps, heads, followed) {
  const strokes = find(".strokes", lines);
  strokes.replaceChildren();
  for (const head of heads) {
    const paths = new Map();
    maps[head].forEach((row, i) => row.forEach((value, j) => {
      if (followed && followed.index !== (followed.side === "queries" ? i : j)) return;
      const level = Math.round(value * LEVELS);
      if (level) paths.set(level, `${paths.get(level) || ""}M0 ${i + 0.5}L100 ${j + 0.5}`);
    }));
    const colour = head < maps.length - 1 ? headClass(head) : "";
    for (const [level, d] of paths) addSvg(strokes, "path", { d, class: colour, opacity: level / LEVELS });
  }
}

function showFigures() {
  const { views, attentions: { encoder } } = state.sentence;
  find(".no-views").hidden = views.length > 0;
  find(".paper").hidden = !views.length;
  find(".views").replaceChildren();
  views.forEach((view, number) => {
    const figure = add(find(".views"), "figure", "view");
    const caption = add(figure, "figcaption");
    const name = add(caption, "h4", "", view.name);
    add(name, "span", "unit", `as figure ${view.figure}`);
    const chosen = add(caption, "p", "chosen", `Layer ${view.layer + 1} · `);
    for (const head of view.heads) add(chosen, "span", `head-name ${headClass(head)}`, `head ${head + 1}`);
    add(caption, "p", "note", `${view.criterion} ${view.result}`);
    button(caption, "Explore this view", () => { showView(number); find(".explorer").scrollIntoView(); });
    const lines = linesBetween(figure, encoder);
    const followed = view.piece === null ? null : { side: "queries", index: view.piece };
    drawStrokes(lines, encoder.weights[view.layer], view.heads, followed);
    if (followed) {
      chosen.append(" · from ");
      pieceName(add(chosen, "b"), encoder.rows[view.piece]);
      find(".queries", lines).children[view.piece].classList.add("marked");
    }
  });
}

// --- Following a piece ---

function point(piece) {
  if (JSON.stringify(piece) === JSON.stringify(pointed)) return;
  pointed = piece;
  follow();
}

function pin(piece) {
  pinned = piece;
  pointed = null;
  follow();
}

// The piece of a list, or the row and the column of a cell of the large map.
function pieceAt({ target, clientX, clientY }) {
  const cells = target.closest(".cells");
  if (cells) {
    const { left, top, width, height } = cells.getBoundingClientRect();
    const index = Math.floor((clientY - top) / height * shown.length);
    const other = Math.floor((clientX - left) / width * shown[0].length);
    return shown[index]?.[other] === undefined ? null : { side: "queries", index, other };
  }
  const item = target.closest("li[data-index]");
  return item && { side: sideOf(item.parentElement), index: Number(item.dataset.index), other: null };
}

function sideOf(list) {
  return list.classList.contains("keys") ? "keys" : "queries";
}

function pointAt(event) {
  if (event.pointerType !== "touch") point(pieceAt(event));
}

function pinAt(event) {
  const piece = pieceAt(event);
  if (!piece) return;
  // A tap focuses the piece, which has pinned it by now. A second click unpins it.
  const again = event.detail && pinned?.clicked && ["side", "index", "other"].every((key) => pinned[key] === piece[key]);
  pin(again ? null : { ...piece, clicked: true });
}

function pinFocused(event) {
  const piece = pieceAt(event);
  if (piece && event.target.matches(":focus-visible")) pin(piece);
}

function releaseFocused(event) {
  if (pinned && !pinned.clicked && pieceAt(event)) pin(null);
}

// Arrow keys lead from head to head in the overview, and from piece to piece in a list.
function move(event) {
  if (event.key === "Escape") return pin(null);
  const step = STEPS[event.key];
  const cell = event.target.closest("td[data-head]");
  const item = event.target.closest("li[data-index]");
  if (!step || (!cell && !item)) return;
  event.preventDefault();
  if (cell) {
    const to = find(".overview").rows[cell.parentElement.rowIndex + step[0]]?.cells[cell.cellIndex + step[1]];
    if (to?.dataset.head) to.click();
    return;
  }
  const to = item.parentElement.children[Number(item.dataset.index) + step[0] + step[1]];
  if (!to) return;
  item.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
  pin(pieceAt({ target: to }));
}

function follow() {
  const followed = pointed || pinned;
  const { rows, columns, weights } = attention();
  drawStrokes(find(".drawn"), weights[state.layer], state.heads, followed);
  showFacts(followed);
  exploring.classList.toggle("following", followed !== null);
  for (const item of all(".exploring .marked")) item.classList.remove("marked");
  for (const item of all(".drawn li")) item.style.removeProperty("--weight");
  const band = find(".band");
  band.setAttribute("visibility", followed ? "visible" : "hidden");
  if (!followed) return;

  const { side, index, other } = followed;
  const count = side === "queries" ? rows.length : columns.length;
  exploring.dataset.side = side;
  exploring.style.setProperty("--from", `${index / count * 100}%`);
  exploring.style.setProperty("--to", `${(index + 1) / count * 100}%`);
  for (const list of all(".exploring .pieces")) {
    if (sideOf(list) === side) list.children[index].classList.add("marked");
    else if (other !== null) list.children[other].classList.add("marked");
  }
  const place = side === "queries"
    ? { x: other ?? 0, y: index, width: other === null ? columns.length : 1, height: 1 }
    : { x: index, y: 0, width: 1, height: rows.length };
  for (const [name, value] of Object.entries(place)) band.setAttribute(name, value);
  all(side === "queries" ? ".drawn .keys li" : ".drawn .queries li").forEach((item, at) => {
    item.style.setProperty("--weight", weightsOf(followed, shown)[at]);
  });
}

function showFacts(followed) {
  const facts = find(".facts");
  facts.replaceChildren();
  if (!followed) {
    add(facts, "p", "note",
      "Point at a piece, or move through the pieces with the arrow keys, to follow it through all heads. A click keeps it; Escape lets it go.");
    return;
  }
  const { side, index, other } = followed;
  const { rows, columns, weights } = attention();
  const [own, others] = side === "queries" ? [rows, columns] : [columns, rows];
  const [role, otherRole] = side === "queries" ? ["query", "key"] : ["key", "query"];
  // The weights between the piece and those of the other side, the strongest first.
  const strongest = (map, prefix = "") => weightsOf(followed, map)
    .map((weight, at) => ({ piece: others[at], weight, prefix })).sort((a, b) => b.weight - a.weight);

  pieceName(add(facts, "h4"), own[index]);
  add(facts, "p", "note", `${role} ${index + 1} of ${own.length}${neighbour(side, index)}`);
  if (other !== null) {
    const line = add(facts, "p", "", "→ ");
    pieceName(add(line, "b"), others[other]);
    line.append(` ${percent(shown[index][other])}`);
  }
  add(facts, "h5", "", `Strongest ${side === "queries" ? "keys" : "queries"} in the heads shown`);
  bars(facts, strongest(shown).slice(0, STRONGEST));
  add(facts, "h5", "", `Strongest ${otherRole} of each layer, with its head`);
  bars(facts, weights.map((maps, layer) => maps.slice(0, -1)
    .map((map, head) => strongest(map, `${layer + 1}.${head + 1} `)[0]).sort((a, b) => b.weight - a.weight)[0]));
}

// The row or the column of a map that belongs to the followed piece.
function weightsOf({ side, index }, map) {
  return side === "queries" ? map[index] : map.map((row) => row[index]);
}

// At each position the decoder reads one piece and predicts the next.
function neighbour(side, index) {
  const { decoder, memory } = state.sentence.attentions;
  if (state.name === "decoder") return `; predicts ${memory.rows[index]}`;
  return state.name === "memory" && side === "queries" ? `; reads ${decoder.rows[index]}` : "";
}

function bars(parent, values) {
  const list = add(parent, "div", "bars");
  for (const { piece, weight, prefix } of values) {
    const name = add(list, "span");
    if (prefix) add(name, "span", "note", prefix);
    pieceName(add(name, "bdi"), piece);
    add(list, "span", "bar").style.setProperty("--weight", weight);
    add(list, "span", "number", percent(weight));
  }
}

function percent(weight) {
  return weight > 0 && weight < 0.0005 ? "<0.1%" : `${(weight * 100).toFixed(1)}%`;
}

// --- Elements ---

function pieceList(parent, pieces, side) {
  const list = add(parent, "ol", `pieces ${side}`);
  for (const piece of pieces) pieceName(add(list, "li"), piece).title = piece;
  return list;
}

// The pieces of a list can be followed. The tab key reaches the first one, arrow keys the others.
function followable(list, tabIndex = 0) {
  [...list.children].forEach((item, index) => {
    item.dataset.index = index;
    item.tabIndex = index ? -1 : tabIndex;
  });
}

function pieceName(parent, piece) {
  parent.dir = "auto";
  parent.textContent = piece;
  return parent;
}

// The width of a piece in Latin letters; letters of Chinese, Japanese and Korean are about twice as wide.
function lettersOf(piece) {
  return piece.length + (piece.match(/[\u2e80-\uffef]/g) || []).length;
}

// The colour of a head. Heads that share a colour differ in their dashes.
function headClass(head) {
  return `colour-${head % COLOURS} dash-${Math.floor(head / COLOURS) % 3}`;
}

function button(parent, name, onClick) {
  const made = add(parent, "button", "chip", name);
  made.type = "button";
  made.addEventListener("click", onClick);
}

function chip(parent, type, name, onChange, className = "") {
  const label = add(parent, "label", `chip ${className}`);
  const input = add(label, "input");
  input.type = type;
  input.addEventListener("change", onChange);
  label.append(name);
  return input;
}

function add(parent, name, className = "", text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return parent.appendChild(made);
}

function addSvg(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}
