"use strict";
// Everything that is shown follows from `state`; `show` makes the page after a choice, `light` after a token.
const DATA = JSON.parse(document.getElementById("data").textContent);
// Paler lines are left out: a sentence of 60 tokens has 28,800, and of one token they are few.
const LEAST_DRAWN = 0.08, LEAST_LIT = 0.02;
const TOLD = 3; // targets named for each head
const form = document.querySelector(".pickers");
const maps = document.querySelector(".maps");
const canvas = maps.querySelector("canvas");
const readout = document.querySelector(".readout");
const columnsOf = { rows: maps.querySelector("[data-side=rows]"), columns: maps.querySelector("[data-side=columns]") };
const OTHER = { rows: "columns", columns: "rows" };
const state = { sentence: 0, kind: null, layer: null, heads: new Set(), words: true, lit: null, held: false };
let view = null; // {num: heads, rows: labels, columns: labels, weights: Float32Array (H, T, S)}
let asked = 0;

async function unpack(packed) {
  if (!packed.values) {
    const bytes = Uint8Array.from(atob(packed.bytes), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    packed.values = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  return packed.values;
}

function starts(words) {
  return words.map((word, place) => (place === 0 || words[place - 1] !== word ? place : -1)).filter((place) => place >= 0);
}

// To a word: the sum over its pieces. From a word: the mean over its pieces.
function mergeWords(weights, num, rowWords, columnWords) {
  const T = rowWords.length, S = columnWords.length;
  const rows = rowWords[T - 1] + 1, columns = columnWords[S - 1] + 1;
  const sizes = new Array(rows).fill(0);
  rowWords.forEach((word) => { sizes[word] += 1; });
  const merged = new Float32Array(num * rows * columns);
  for (let h = 0; h < num; h++)
    for (let t = 0; t < T; t++)
      for (let s = 0; s < S; s++)
        merged[(h * rows + rowWords[t]) * columns + columnWords[s]] += weights[(h * T + t) * S + s] / sizes[rowWords[t]];
  return merged;
}

async function makeView() {
  const sentence = DATA.sentences[state.sentence];
  const packed = sentence.weights[state.kind];
  const values = await unpack(packed);
  const [, num, T, S] = packed.shape;
  const offset = sentence.layers.indexOf(state.layer) * num * T * S;
  const weights = Float32Array.from(values.subarray(offset, offset + num * T * S), (value) => value / DATA.levels);
  const [rows, columns] = DATA.kinds[state.kind].sides.map((side) => sentence.sides[side]);
  if (!state.words) return { num, rows: rows.pieces, columns: columns.pieces, weights };
  return { num, rows: rows.word_labels, columns: columns.word_labels, weights: mergeWords(weights, num, rows.words, columns.words) };
}

const weightAt = (head, row, column) => view.weights[(head * view.rows.length + row) * view.columns.length + column];
const color = (head) => `var(--head-${head % DATA.numColors})`;
const chosenHeads = () => [...state.heads].filter((head) => head < view.num).sort((a, b) => a - b);

function option(value, text, chosen) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  made.selected = chosen;
  return made;
}

// A choice that the sentence does not have falls back to one that it has.
function settle() {
  const sentence = DATA.sentences[state.sentence];
  const kinds = Object.keys(sentence.weights);
  if (!kinds.includes(state.kind)) state.kind = kinds[0];
  if (!sentence.layers.includes(state.layer)) state.layer = sentence.layers[Math.max(0, sentence.layers.length - 2)];
  form.kind.replaceChildren(...kinds.map((kind) => option(kind, DATA.kinds[kind].name, kind === state.kind)));
  form.layer.replaceChildren(...sentence.layers.map((layer) => option(layer, layer, layer === state.layer)));
}

function showHeads() {
  document.querySelector(".head-list").replaceChildren(...Array.from({ length: view.num }, (_, head) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.value = head;
    box.checked = state.heads.has(head);
    box.addEventListener("change", () => {
      if (box.checked) state.heads.add(head); else state.heads.delete(head);
      light();
    });
    label.style.setProperty("--color", color(head));
    label.append(box, String(head + 1));
    return label;
  }));
}

function showTokens(side) {
  const labels = view[side];
  columnsOf[side].replaceChildren(...labels.map((text, place) => {
    const token = document.createElement("div");
    token.className = "token";
    token.setAttribute("role", "option");
    token.setAttribute("aria-selected", "false");
    token.dataset.place = place;
    token.tabIndex = place === 0 ? 0 : -1;
    const word = document.createElement("span");
    word.className = "text";
    word.dir = "auto";
    word.textContent = text; // as text, whatever it holds
    const weight = document.createElement("span");
    weight.className = "weight";
    token.append(word, weight);
    return token;
  }));
}

async function show() {
  const turn = ++asked;
  settle();
  const made = await makeView();
  if (turn !== asked) return; // another choice was made meanwhile
  view = made;
  state.lit = null;
  state.held = false;
  showHeads();
  showTokens("rows");
  showTokens("columns");
  light();
  document.body.dataset.ready = String(turn);
}

let waiting = false;
function light() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; if (view) paint(); });
}

function paint() {
  const heads = chosenHeads(), lit = state.lit;
  maps.classList.toggle("lit", lit !== null);
  for (const side of ["rows", "columns"]) {
    const tokens = columnsOf[side].children;
    for (let place = 0; place < tokens.length; place++) {
      const token = tokens[place], own = lit !== null && lit.side === side && lit.place === place;
      token.classList.toggle("lit", own);
      token.classList.toggle("held", own && state.held);
      token.setAttribute("aria-selected", String(own));
      const told = lit !== null && lit.side !== side && heads.length > 0;
      const weights = told ? heads.map((head) => (side === "columns" ? weightAt(head, lit.place, place) : weightAt(head, place, lit.place))) : [];
      const mean = told ? weights.reduce((sum, weight) => sum + weight, 0) / heads.length : 0;
      const number = token.lastElementChild;
      number.textContent = told ? mean.toFixed(3) : "";
      number.classList.toggle("told", told && mean >= 0.0005);
      token.style.background = told && mean > 0 ? stripes(heads, weights) : "";
    }
  }
  drawLines(heads);
  tell(heads);
}

// Behind a token, a stripe for each head, as opaque as its weight.
function stripes(heads, weights) {
  const share = 100 / heads.length;
  const stops = heads.map((head, place) => {
    const paint = `color-mix(in srgb, ${color(head)} ${(60 * weights[place]).toFixed(1)}%, transparent)`;
    return `${paint} ${(share * place).toFixed(2)}% ${(share * (place + 1)).toFixed(2)}%`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

function middles(side) {
  const top = canvas.getBoundingClientRect().top;
  return Array.from(columnsOf[side].children, (token) => {
    const box = token.getBoundingClientRect();
    return box.top - top + box.height / 2;
  });
}

function drawLines(heads) {
  const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, box.width, box.height);
  const style = getComputedStyle(document.documentElement);
  const from = middles("rows"), to = middles("columns"), lit = state.lit;
  pen.lineWidth = lit ? 2 : 1.4;
  const least = lit ? LEAST_LIT : LEAST_DRAWN;
  heads.forEach((head, place) => {
    pen.strokeStyle = style.getPropertyValue(`--head-${head % DATA.numColors}`).trim();
    const shift = 1.2 * (place - (heads.length - 1) / 2); // so that equal lines do not hide each other
    for (let row = 0; row < from.length; row++) {
      if (lit && lit.side === "rows" && lit.place !== row) continue;
      for (let column = 0; column < to.length; column++) {
        if (lit && lit.side === "columns" && lit.place !== column) continue;
        const weight = weightAt(head, row, column);
        if (weight < least) continue;
        pen.globalAlpha = Math.min(1, lit ? weight ** 0.8 : weight * 0.8);
        pen.beginPath();
        pen.moveTo(2, from[row] + shift);
        pen.lineTo(box.width - 2, to[column] + shift);
        pen.stroke();
      }
    }
  });
}

function tell(heads) {
  const lit = state.lit;
  if (!lit || !heads.length) {
    const line = document.createElement("p");
    line.className = "muted";
    line.textContent = heads.length ? "No token is pointed at." : "No head is chosen.";
    readout.replaceChildren(line);
    return;
  }
  const line = document.createElement("p"), word = document.createElement("b");
  word.textContent = view[lit.side][lit.place];
  line.append(word, lit.side === "rows" ? " looks most at" : " is looked at most by");
  const table = document.createElement("table"), body = table.createTBody();
  for (const head of heads) {
    const row = body.insertRow(), name = document.createElement("th");
    name.scope = "row";
    name.style.setProperty("--color", color(head));
    name.textContent = `head ${head + 1}`;
    row.append(name);
    const labels = view[OTHER[lit.side]];
    const found = labels.map((text, place) => ({ text, weight: lit.side === "rows" ? weightAt(head, lit.place, place) : weightAt(head, place, lit.place) }));
    found.sort((a, b) => b.weight - a.weight);
    for (const { text, weight } of found.slice(0, TOLD)) row.insertCell().textContent = `${text} ${weight.toFixed(3)}`;
  }
  readout.replaceChildren(line, table);
}

function tokenOf(target) {
  const token = target instanceof Element ? target.closest(".token") : null;
  return token && { side: token.parentElement.dataset.side, place: Number(token.dataset.place), token };
}

function point(found) {
  const lit = found && { side: found.side, place: found.place };
  if (JSON.stringify(lit) === JSON.stringify(state.lit)) return;
  state.lit = lit;
  light();
}

// A token that comes to lie under a pointer at rest is not pointed at: bold letters or the keyboard moved it there.
let resting = "";
document.addEventListener("pointermove", (event) => { resting = `${event.clientX} ${event.clientY}`; });
maps.addEventListener("pointerover", (event) => {
  if (resting === `${event.clientX} ${event.clientY}`) return;
  const found = tokenOf(event.target);
  if (found && !state.held && event.pointerType !== "touch") point(found);
});
maps.addEventListener("pointerleave", () => { if (!state.held) point(null); });
maps.addEventListener("click", (event) => {
  const found = tokenOf(event.target);
  if (!found) return;
  const same = state.held && state.lit && state.lit.side === found.side && state.lit.place === found.place;
  state.held = !same;
  state.lit = { side: found.side, place: found.place };
  focusOn(found.side, found.place);
  light();
});
maps.addEventListener("focusin", (event) => {
  const found = tokenOf(event.target);
  if (found && !state.held) point(found);
});

function focusOn(side, place) {
  const tokens = columnsOf[side].children;
  for (const token of tokens) token.tabIndex = Number(token.dataset.place) === place ? 0 : -1;
  tokens[place].focus({ preventScroll: false });
}

maps.addEventListener("keydown", (event) => {
  const found = tokenOf(event.target);
  if (!found) return;
  const last = view[found.side].length - 1;
  const move = { ArrowDown: found.place + 1, ArrowUp: found.place - 1, Home: 0, End: last }[event.key];
  if (move !== undefined) {
    state.held = false;
    focusOn(found.side, Math.max(0, Math.min(last, move)));
    point(tokenOf(document.activeElement));
  } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const side = event.key === "ArrowLeft" ? "rows" : "columns";
    state.held = false;
    focusOn(side, Math.min(found.place, view[side].length - 1));
    point(tokenOf(document.activeElement));
  } else if (event.key === "Enter" || event.key === " ") {
    state.held = !state.held;
    state.lit = { side: found.side, place: found.place };
    light();
  } else if (event.key === "Escape") {
    state.held = false;
    state.lit = null;
    light();
  } else return;
  event.preventDefault();
});

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", () => {
  state.sentence = Number(form.sentence.value);
  state.kind = form.kind.value;
  state.layer = Number(form.layer.value);
  state.words = form.words.checked;
  show();
});
for (const [name, chosen] of [["all", true], ["none", false]]) {
  document.querySelector(`.heads button[name=${name}]`).addEventListener("click", () => {
    state.heads = new Set(chosen ? Array.from({ length: view.num }, (_, head) => head) : []);
    showHeads();
    light();
  });
}
new ResizeObserver(light).observe(maps);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", light);

form.sentence.replaceChildren(...DATA.sentences.map((sentence, place) => option(place, sentence.text, place === 0)));
state.layer = DATA.start.layer;
state.kind = DATA.start.kind;
state.heads = new Set(Array.from({ length: Object.values(DATA.sentences[0].weights)[0].shape[1] }, (_, head) => head));
show();
