// Translates while one types: the server sends the translation piece by piece (POST /stream).
"use strict";

// Long enough not to ask at every key, short enough not to be noticed.
const MILLISECONDS_AFTER_A_KEY = 250;
const ALTERNATIVES = 2;
const REMEMBERED = ["source", "target"];

const [source, target, text, translation, status, count, copy, clear, choice, file, swap, others, access, key] = [
  "source", "target", "text", "translation", "status", "count", "copy", "clear", "choose", "file", "swap", "others",
  "access", "key",
].map((id) => document.getElementById(id));
const pane = translation.parentElement;

// Language code -> { name, targets }.
const languages = new Map();
let limit = Infinity;
let timer = null;
// Cancels the request that is running.
let running = null;
// The text whose whole translation is shown; null while there is none.
let translated = null;

text.addEventListener("input", typed);
source.addEventListener("change", () => { offerTargets(target.value); translate(); });
target.addEventListener("change", () => { offerTargets(target.value); translate(); });
swap.addEventListener("click", switchDirection);
copy.addEventListener("click", copyTranslation);
clear.addEventListener("click", empty);
choice.addEventListener("click", () => file.click());
file.addEventListener("change", translateFile);
others.addEventListener("click", (event) => event.target.matches("button") && choose(event.target));
access.addEventListener("submit", (event) => { event.preventDefault(); translate(); });
addEventListener("keydown", pressed);
start();

async function start() {
  try {
    const [found, settings] = await Promise.all([ask("languages"), ask("frontend/settings")]);
    for (const { code, name, targets } of found) languages.set(code, { name, targets });
    limit = settings.charLimit;
    access.hidden = !settings.keyRequired;
    file.accept = settings.supportedFilesFormat.join();
    choice.hidden = false;
  } catch (error) {
    say(`The server does not answer: ${error.message}`, true);
    return;
  }
  const sources = [...languages].filter(([, { targets }]) => targets.length).map(([code]) => code);
  offer(source, [["auto", "Detect language"], ...sources.map((code) => [code, languages.get(code).name])]);
  const linked = link();
  source.value = [linked.source, kept("source")].find((code) => code === "auto" || sources.includes(code)) ?? sources[0];
  offerTargets(linked.target ?? kept("target"));
  text.value ||= linked.text ?? "";
  typed();
}

// A link to a translation: #en/de/Good%20morning
function link() {
  const [source, target, ...rest] = location.hash.slice(1).split("/");
  try {
    return rest.length ? { source, target, text: decodeURIComponent(rest.join("/")) } : {};
  } catch {
    return {}; // the text is damaged
  }
}

async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.json();
}

// --- Languages ---

function offer(select, options) {
  select.replaceChildren(...options.map(([code, name]) => new Option(name, code)));
}

function offerTargets(wanted) {
  const all = [...languages.values()].flatMap(({ targets }) => targets);
  const codes = source.value === "auto" ? [...new Set(all)] : languages.get(source.value).targets;
  offer(target, codes.map((code) => [code, languages.get(code).name]));
  if (codes.includes(wanted)) target.value = wanted;
  swap.disabled = !languages.get(target.value)?.targets.some((code) => source.value === "auto" || code === source.value);
}

function switchDirection() {
  if (swap.disabled) return;
  const [from, to] = [source.value === "auto" ? text.lang : source.value, target.value];
  source.value = to;
  offerTargets(from);
  // Otherwise a part of a translation, or that of another text, would take the place of the text.
  if (translated === text.value && translated) text.value = translation.textContent;
  typed();
}

// Some browsers have no storage for pages; then nothing is remembered.
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return undefined;
  }
}

function keep() {
  try {
    for (const name of REMEMBERED) localStorage.setItem(name, document.getElementById(name).value);
  } catch {
    // As above.
  }
}

// --- Translating ---

function typed() {
  const length = [...text.value].length;
  count.textContent = length ? `${length.toLocaleString("en")} / ${limit.toLocaleString("en")}` : "";
  count.classList.toggle("wrong", length > limit);
  clear.hidden = !length;
  running?.abort();
  clearTimeout(timer);
  timer = setTimeout(translate, MILLISECONDS_AFTER_A_KEY);
}

async function translate() {
  clearTimeout(timer);
  keep();
  running?.abort();
  const request = running = new AbortController();
  translated = null;
  say("");
  others.hidden = true;
  const isBlank = !text.value.trim();
  pane.classList.toggle("growing", !isBlank);
  if (isBlank) show("");
  if (isBlank || !source.value) return;
  try {
    await grow(request.signal);
  } catch (error) {
    if (!request.signal.aborted) {
      show("");
      say(error.message, true);
    }
  }
  if (running === request) pane.classList.remove("growing");
}

async function grow(signal) {
  const began = performance.now();
  const asked = { q: text.value, source: source.value, target: target.value, alternatives: ALTERNATIVES };
  if (key.value) asked.api_key = key.value;
  const response = await fetch("stream", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(asked),
    signal,
  });
  if (!response.ok) throw new Error((await response.json()).error);
  let grown = "";
  let warning = "";
  for await (const part of lines(response.body)) {
    if (signal.aborted) return;
    if (part.error) throw new Error(part.error);
    if (part.warning) warning = `. ${part.warning}`;
    if (part.source) {
      text.lang = part.source;
      translation.lang = target.value;
    }
    grown += part.text ?? "";
    show(grown);
    if (part.alternatives) showOthers(part.alternatives.filter((other) => other !== grown));
  }
  translated = asked.q;
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  const from = source.value === "auto" ? `from ${languages.get(text.lang)?.name ?? text.lang}, ` : "";
  say(`${from}${seconds} s${warning}`);
}

// Into the folder of downloads.
async function translateFile() {
  const [chosen] = file.files;
  if (!chosen) return;
  const asked = new FormData();
  asked.append("source", source.value);
  asked.append("target", target.value);
  if (key.value) asked.append("api_key", key.value);
  asked.append("file", chosen);
  file.value = ""; // so that the same file may be chosen again
  choice.disabled = true;
  say(`Translating ${chosen.name} …`);
  try {
    const response = await fetch("translate_file", { method: "POST", body: asked });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    const download = document.createElement("a");
    // The host in the address is another if a proxy changes it.
    download.href = `download_file/${answer.translatedFileUrl.split("/").pop()}`;
    download.click();
    say(`${chosen.name} is translated.`);
  } catch (error) {
    say(error.message, true);
  }
  choice.disabled = false;
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const [...complete] = (rest + read.value).split("\n");
    rest = complete.pop();
    yield* complete.map((line) => JSON.parse(line));
  }
}

// --- What is shown ---

function show(words) {
  translation.textContent = words;
  copy.hidden = !words;
}

function showOthers(texts) {
  const items = texts.map((words) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dir = "auto";
    button.lang = target.value;
    button.title = "Use this translation";
    button.textContent = words;
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  others.querySelector("ul").replaceChildren(...items);
  others.hidden = !items.length;
}

// The chosen alternative and the translation change places.
function choose(button) {
  const words = button.textContent;
  button.textContent = translation.textContent;
  show(words);
}

function say(message, isWrong = false) {
  status.textContent = message;
  status.classList.toggle("wrong", isWrong);
}

async function copyTranslation() {
  try {
    await navigator.clipboard.writeText(translation.textContent);
    say("Copied");
  } catch {
    // Without a secure connection, browsers only let people copy: the text is selected for them.
    getSelection().selectAllChildren(translation);
    say("Press Ctrl+C to copy");
  }
}

function empty() {
  text.value = "";
  typed();
  translate();
  text.focus();
}

function pressed(event) {
  if (event.key === "Escape" && event.target === text && !event.isComposing) empty();
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  // By the letter, not by the place of the key: on a Mac, Alt and S is a letter of its own.
  const action = { s: switchDirection, c: copyTranslation }[event.key.toLowerCase()];
  if (action === undefined) return;
  event.preventDefault();
  action();
}
