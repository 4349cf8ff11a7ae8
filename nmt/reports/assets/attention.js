// Explores the attention of a sentence: a large map, lines between pieces, and one piece through all heads.
// Without this script the page shows all heads as small maps, and the figures of the paper.
"use strict";

const MEAN = "mean";
const COLOURS = 8;
// Lines of similar weight share a path. Weights are rounded to this many levels; a weight at level 0 is not drawn.
const LEVELS = 10;
const UNITS = 65535;
const STRONGEST = 6;
// A map of more columns has a row of its own.
const LONG = 36;
const SVG = "http://www.w3.org/2000/svg";

const sections = [...document.querySelectorAll("section.sentence")];
sections.forEach(explore);
if (sections.length > 1) chooseSentence();

// A list of the sentences, of which one is shown.
function chooseSentence() {
  const label = document.createElement("label");
  label.className = "sentence-choice";
  add(label, "span").textContent = "sentence";
  const select = add(label, "select");
  sections.forEach((section, number) => {
    add(select, "option").textContent = `${number + 1}  ${section.querySelector(".pair dd").textContent}`;
  });
  const show = () => sections.forEach((section, number) => { section.hidden = number !== select.selectedIndex; });
  select.addEventListener("change", show);
  sections[0].before(label);
  for (const section of sections) section.querySelector("h2").hidden = true;
  show();
}

function explore(section) {
  const { attentions, views } = JSON.parse(section.querySelector("script.weights").textContent);
  const switches = [...section.querySelectorAll(".attention-choice input")];
  const state = { name: "encoder", layer: 0, heads: new Set([0]), view: null };
  // The piece that is followed: { side: "queries" or "keys", index, other: the index on the other side or null }.
  let pinned = null;
  let pointed = null;

  const explorer = section.querySelector(".explorer");
  const title = add(explorer, "h3", "title");
  const viewChoice = choice(explorer, "views");
  const layerChoice = choice(explorer, "layer");
  const headChoice = choice(explorer, "heads");
  const how = add(explorer, "p", "note how");
  const panes = add(explorer, "div", "panes");
  const large = pane(panes, "large", "Rows are queries, columns are keys.");
  const drawn = pane(panes, "drawn", "Lines lead from queries (left) to keys (right), for weights of 5% or more.");
  const facts = add(panes, "div", "facts");
  facts.setAttribute("aria-live", "polite");

  for (const [number, view] of views.entries()) {
    const button = add(viewChoice, "button", "chip");
    button.type = "button";
    button.textContent = view.name;
    button.addEventListener("click", () => showView(number));
    const again = add(section.querySelector(`[data-view="${number}"] figcaption`), "button", "chip");
    again.type = "button";
    again.textContent = "Explore this view";
    again.addEventListener("click", () => { showView(number); explorer.scrollIntoView(); });
  }
  viewChoice.hidden = !views.length;
  for (const each of switches) each.addEventListener("change", () => showAttention(each.value));
  for (const panel of section.querySelectorAll(".panel")) prepareOverview(panel);
  section.addEventListener("pointerover", pointAt);
  section.addEventListener("pointerleave", () => point(null));
  section.addEventListener("click", pinAt);
  section.addEventListener("focusin", pinFocused);
  section.addEventListener("focusout", releaseFocused);
  section.addEventListener("keydown", moveAlong);
  // A browser may restore the switch of an earlier visit.
  showAttention(switches.find((each) => each.checked).value);

  // --- The state ---

  function showAttention(name) {
    // The other attention has other pieces.
    pinned = pointed = null;
    change({ name, layer: 0, heads: new Set([0]), view: null });
  }

  function showView(number) {
    const { layer, heads, piece } = views[number];
    switches.find((each) => each.value === "encoder").checked = true;
    pinned = piece === null ? null : { side: "queries", index: piece, other: null };
    pointed = null;
    change({ name: "encoder", layer, heads: new Set(heads), view: number });
  }

  function showHead(layer, head) {
    change({ layer, heads: new Set([head]), view: null });
  }

  function change(changes) {
    Object.assign(state, changes);
    showChoices();
    showSelection();
    showMap();
    showLines();
    follow();
  }

  function pin(piece) {
    pinned = piece;
    pointed = null;
    follow();
  }

  function attention() {
    const found = attentions[state.name];
    found.values ??= unpacked(found.weights);
    return found;
  }

  function weight(layer, head, row, column) {
    const { values, heads, rows, columns } = attention();
    const at = (h) => values[((layer * heads + h) * rows.length + row) * columns.length + column] / UNITS;
    if (head !== MEAN) return at(head);
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += at(h);
    return sum / heads;
  }

  // The mean over the heads that are shown.
  function shownWeight(row, column) {
    let sum = 0;
    for (const head of state.heads) sum += weight(state.layer, head, row, column);
    return sum / state.heads.size;
  }

  // --- Choices ---

  function showChoices() {
    const { layers, heads } = attention();
    const names = [...state.heads].sort((a, b) => a - b);
    const shown = state.heads.has(MEAN) ? "mean of heads" : `head${names.length > 1 ? "s" : ""} ${names.map((h) => h + 1).join(", ")}`;
    title.textContent = `${attention().title}: layer ${state.layer + 1}, ${shown}`;
    [...viewChoice.querySelectorAll("button")].forEach((button, number) => {
      button.setAttribute("aria-pressed", String(number === state.view));
    });
    const view = views[state.view];
    how.hidden = !view;
    how.textContent = view ? `${view.criterion} ${view.result}` : "";

    if (layerChoice.dataset.made !== state.name) {
      for (const old of explorer.querySelectorAll("[data-made] .chip")) old.remove();
      layerChoice.dataset.made = headChoice.dataset.made = state.name;
      for (let layer = 0; layer < layers; layer++) {
        const input = chip(layerChoice, "radio", layer + 1);
        input.name = `layer-${sections.indexOf(section)}`;
        input.addEventListener("change", () => change({ layer, view: null }));
      }
      for (let head = 0; head < heads; head++) {
        chip(headChoice, "checkbox", head + 1, `head ${headClass(head)}`)
          .addEventListener("change", () => switchHead(head));
      }
      chip(headChoice, "checkbox", "mean of heads").addEventListener("change", () => switchHead(MEAN));
      const all = add(headChoice, "button", "chip");
      all.type = "button";
      all.textContent = "all";
      all.addEventListener("click", () => change({ heads: new Set(Array(heads).keys()), view: null }));
    }
    layerChoice.querySelectorAll("input").forEach((input, layer) => { input.checked = layer === state.layer; });
    headChoice.querySelectorAll("input").forEach((input, head) => {
      input.checked = state.heads.has(head < heads ? head : MEAN);
    });
  }

  // The mean stands alone; at least one head stays on.
  function switchHead(head) {
    const heads = new Set(head === MEAN ? [MEAN] : state.heads);
    if (head !== MEAN) {
      heads.delete(MEAN);
      if (!heads.delete(head) || !heads.size) heads.add(head);
    }
    change({ heads, view: null });
  }

  // --- The overview ---

  function prepareOverview(panel) {
    const table = panel.querySelector(".overview");
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", "layers and heads");
    for (const cell of table.querySelectorAll("td[data-head]")) {
      cell.tabIndex = -1;
      const head = cell.dataset.head === MEAN ? MEAN : Number(cell.dataset.head);
      cell.addEventListener("click", () => { cell.focus(); showHead(Number(cell.dataset.layer), head); });
    }
    table.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const from = event.target.closest("td");
      if (!step || !from) return;
      event.preventDefault();
      const row = table.rows[from.parentElement.rowIndex + step[0]];
      const to = row && row.cells[from.cellIndex + step[1]];
      if (to && to.dataset.head) to.click();
    });
    for (const list of panel.querySelectorAll(".strips .pieces")) followable(list, sideOf(list));
  }

  function sideOf(list) {
    return list.classList.contains("keys") ? "keys" : "queries";
  }

  function showSelection() {
    const { heads } = attention();
    const cells = panelShown().querySelectorAll("td[data-head]");
    cells.forEach((cell) => {
      const head = cell.dataset.head === MEAN ? MEAN : Number(cell.dataset.head);
      const isShown = Number(cell.dataset.layer) === state.layer && state.heads.has(head);
      cell.setAttribute("aria-selected", String(isShown));
      cell.tabIndex = -1;
    });
    // The tab key reaches the first head that is shown.
    const first = [...state.heads][0];
    cells[state.layer * (heads + 1) + (first === MEAN ? heads : first)].tabIndex = 0;
  }

  function panelShown() {
    return section.querySelector(`.panel.${state.name}`);
  }

  // --- The large map ---

  function showMap() {
    const { rows, columns } = attention();
    const frame = document.createElement("div");
    frame.className = "frame";
    frame.style.setProperty("--rows", rows.length);
    frame.style.setProperty("--columns", columns.length);
    frame.style.setProperty("--letters", Math.max(...[...rows, ...columns].map(lettersOf)));
    pieceList(frame, columns, "keys");
    pieceList(frame, rows, "queries");
    const cells = addSvg(frame, "svg", { class: "cells", viewBox: `0 0 ${columns.length} ${rows.length}`, preserveAspectRatio: "none" });
    rows.forEach((_, row) => columns.forEach((_, column) => {
      const opacity = Math.sqrt(shownWeight(row, column));
      if (opacity > 0.03) addSvg(cells, "rect", { x: column + 0.03, y: row + 0.03, width: 0.94, height: 0.94, "fill-opacity": opacity.toFixed(3) });
    }));
    addSvg(cells, "rect", { class: "band" });
    cells.addEventListener("pointermove", (event) => {
      const box = cells.getBoundingClientRect();
      const row = Math.floor((event.clientY - box.top) / box.height * rows.length);
      const column = Math.floor((event.clientX - box.left) / box.width * columns.length);
      if (row >= 0 && row < rows.length && column >= 0 && column < columns.length) point({ side: "queries", index: row, other: column });
    });
    cells.addEventListener("pointerleave", () => point(null));
    cells.addEventListener("click", () => pin(pointed));
    large.replaceChildren(frame);
    panes.classList.toggle("wide-map", columns.length > LONG);
  }

  // --- Lines ---

  function showLines() {
    const { rows, columns } = attention();
    const height = Math.max(rows.length, columns.length);
    const lines = document.createElement("div");
    lines.className = "lines";
    lines.style.setProperty("--pieces", height);
    followable(pieceList(lines, rows, "queries"), "queries");
    addSvg(lines, "svg", { class: "strokes", viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    followable(pieceList(lines, columns, "keys"), "keys");
    drawn.replaceChildren(lines);
  }

  function drawStrokes(followed) {
    const { rows, columns } = attention();
    const strokes = drawn.querySelector(".strokes");
    strokes.replaceChildren();
    for (const head of state.heads) {
      const paths = new Map();
      rows.forEach((_, row) => {
        if (followed && followed.side === "queries" && followed.index !== row) return;
        columns.forEach((_, column) => {
          if (followed && followed.side === "keys" && followed.index !== column) return;
          const level = Math.round(weight(state.layer, head, row, column) * LEVELS);
          if (level) paths.set(level, `${paths.get(level) || ""}M0 ${row + 0.5}L100 ${column + 0.5}`);
        });
      });
      for (const [level, d] of paths) addSvg(strokes, "path", { d, class: head === MEAN ? "" : headClass(head), opacity: level / LEVELS });
    }
  }

  // --- Following a piece ---

  function point(piece) {
    const same = piece && pointed && piece.side === pointed.side && piece.index === pointed.index && piece.other === pointed.other;
    if (same || (!piece && !pointed)) return;
    pointed = piece;
    follow();
  }

  function pieceAt(target) {
    const item = target.closest("li[data-index]");
    return item && { side: item.parentElement.dataset.side, index: Number(item.dataset.index), other: null };
  }

  function pointAt(event) {
    // The cells of the large map have a listener of their own.
    if (event.pointerType !== "touch" && !event.target.closest(".cells")) point(pieceAt(event.target));
  }

  function pinAt(event) {
    const piece = pieceAt(event.target);
    if (!piece) return;
    // A tap focuses the piece, which has pinned it by now. A second click unpins it.
    const again = event.detail && pinned && pinned.side === piece.side && pinned.index === piece.index && pinned.clicked;
    pin(again ? null : { ...piece, clicked: true });
  }

  function pinFocused(event) {
    const piece = pieceAt(event.target);
    if (piece && event.target.matches(":focus-visible")) pin(piece);
  }

  function releaseFocused(event) {
    if (pinned && !pinned.clicked && pieceAt(event.target)) pin(null);
  }

  function moveAlong(event) {
    if (event.key === "Escape") return pin(null);
    const item = event.target.closest("li[data-index]");
    const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (!item || !step) return;
    event.preventDefault();
    const to = step < 0 ? item.previousElementSibling : item.nextElementSibling;
    if (!to) return;
    item.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    pin(pieceAt(to));
  }

  function follow() {
    const followed = pointed || pinned;
    const { rows, columns } = attention();
    for (const panel of section.querySelectorAll(".panel")) panel.classList.remove("following");
    for (const marked of section.querySelectorAll(".panel .marked, .explorer .marked")) marked.classList.remove("marked");
    const band = large.querySelector(".band");
    band.setAttribute("visibility", followed ? "visible" : "hidden");
    drawStrokes(followed);
    showFacts(followed);
    const otherSide = followed && drawn.querySelectorAll(followed.side === "queries" ? ".keys li" : ".queries li");
    drawn.querySelectorAll("li").forEach((item) => item.style.removeProperty("--weight"));
    if (!followed) return;

    const { side, index, other } = followed;
    const count = side === "queries" ? rows.length : columns.length;
    const panel = panelShown();
    panel.classList.add("following");
    panel.dataset.side = side;
    panel.style.setProperty("--from", `${index / count * 100}%`);
    panel.style.setProperty("--to", `${(index + 1) / count * 100}%`);
    for (const list of section.querySelectorAll(`.panel.${state.name} .pieces, .explorer .pieces`)) {
      if (sideOf(list) === side) list.children[index].classList.add("marked");
      else if (other !== null) list.children[other].classList.add("marked");
    }
    const place = side === "queries"
      ? { x: other ?? 0, y: index, width: other === null ? columns.length : 1, height: 1 }
      : { x: index, y: 0, width: 1, height: rows.length };
    for (const [name, value] of Object.entries(place)) band.setAttribute(name, value);
    otherSide.forEach((item, at) => {
      item.style.setProperty("--weight", side === "queries" ? shownWeight(index, at) : shownWeight(at, index));
    });
  }

  function showFacts(followed) {
    facts.replaceChildren();
    if (!followed) {
      add(facts, "p", "note").textContent =
        "Point at a piece, or move through the pieces with the arrow keys, to follow it through all heads. A click keeps it; Escape lets it go.";
      return;
    }
    const { side, index, other } = followed;
    const { rows, columns, layers, heads } = attention();
    const [own, others] = side === "queries" ? [rows, columns] : [columns, rows];
    const at = (layer, head, j) => (side === "queries" ? weight(layer, head, index, j) : weight(layer, head, j, index));
    const shownAt = (j) => (side === "queries" ? shownWeight(index, j) : shownWeight(j, index));

    pieceName(add(facts, "h4"), own[index]);
    const role = side === "queries" ? "query" : "key";
    add(facts, "p", "note").textContent = `${role} ${index + 1} of ${own.length}${neighbour(side, index)}`;
    if (other !== null) {
      const line = add(facts, "p");
      line.append("→ ");
      pieceName(add(line, "b"), others[other]);
      line.append(` ${percent(shownAt(other))}`);
    }
    add(facts, "h5").textContent = `Strongest ${side === "queries" ? "keys" : "queries"} in the heads shown`;
    const strongest = [...others.keys()].sort((a, b) => shownAt(b) - shownAt(a)).slice(0, STRONGEST);
    bars(facts, strongest.map((j) => ({ piece: others[j], weight: shownAt(j) })));

    add(facts, "h5").textContent = `Strongest ${side === "queries" ? "key" : "query"} of each layer, with its head`;
    const table = [];
    for (let layer = 0; layer < layers; layer++) {
      let best = { weight: -1 };
      for (let head = 0; head < heads; head++) {
        others.forEach((piece, j) => {
          const value = at(layer, head, j);
          if (value > best.weight) best = { piece, weight: value, prefix: `${layer + 1}.${head + 1} ` };
        });
      }
      table.push(best);
    }
    bars(facts, table);
  }

  // At each position the decoder reads one piece and predicts the next.
  function neighbour(side, index) {
    if (state.name === "decoder") return `; predicts ${attentions.memory.rows[index]}`;
    return state.name === "memory" && side === "queries" ? `; reads ${attentions.decoder.rows[index]}` : "";
  }
}

function bars(parent, values) {
  const list = add(parent, "div", "bars");
  for (const { piece, weight, prefix } of values) {
    const name = add(list, "span");
    if (prefix) add(name, "span", "note").textContent = prefix;
    pieceName(add(name, "bdi"), piece);
    add(list, "span", "bar").style.setProperty("--weight", weight);
    add(list, "span", "number").textContent = percent(weight);
  }
}

function pieceList(parent, pieces, side) {
  const list = add(parent, "ol", `pieces ${side}`);
  list.dataset.side = side;
  pieces.forEach((piece, index) => {
    const item = pieceName(add(list, "li"), piece);
    item.dataset.index = index;
    item.title = piece;
  });
  return list;
}

// Makes the pieces of a list reachable by keyboard: one by the tab key, the others by arrow keys.
function followable(list, side) {
  list.dataset.side = side;
  [...list.children].forEach((item, index) => {
    item.dataset.index = index;
    item.tabIndex = index ? -1 : 0;
  });
}

// The width of a piece in Latin letters; letters of Chinese, Japanese and Korean are about twice as wide.
function lettersOf(piece) {
  return piece.length + (piece.match(/[\u2e80-\uffef]/g) || []).length;
}

function pieceName(parent, piece) {
  parent.dir = "auto";
  parent.textContent = piece;
  return parent;
}

function choice(parent, name) {
  const made = add(parent, "fieldset", "choice");
  add(made, "legend").textContent = name;
  return made;
}

function chip(parent, type, name, className = "") {
  const label = add(parent, "label", `chip ${className}`);
  const input = add(label, "input");
  input.type = type;
  label.append(name);
  return input;
}

function pane(parent, className, caption) {
  const figure = add(parent, "figure");
  figure.classList.add(`${className}-pane`);
  add(figure, "figcaption").textContent = caption;
  return add(figure, "div", className);
}

function headClass(head) {
  return `colour-${head % COLOURS} dash-${Math.floor(head / COLOURS) % 3}`;
}

// 16-bit integers, little-endian, from base64.
function unpacked(base64) {
  const bytes = atob(base64);
  const values = new Uint16Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) values[i] = bytes.charCodeAt(2 * i) | bytes.charCodeAt(2 * i + 1) << 8;
  return values;
}

function percent(weight) {
  return weight > 0 && weight < 0.0005 ? "<0.1%" : `${(weight * 100).toFixed(1)}%`;
}

function add(parent, name, className = "") {
  const made = document.createElement(name);
  made.className = className;
  return parent.appendChild(made);
}

function addSvg(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}
