"use strict";
// Which page is shown: the front page, or that of a cell, by the address behind the #.

const SIGN = {
  holds: "✓", held: "✓", violated: "✗", inconclusive: "?", unsupported: "\u2013",
};

/** An element; text children are text, never markup. */
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") {
      for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== ""));
  return node;
}

function badge(word, text) {
  return make("span", { class: `badge ${word === "held" ? "holds" : word}` },
    make("b", {}, SIGN[word]), ` ${text || word}`);
}

const parts = new Map();

/** A part of this file, unpacked once. */
function part(name) {
  if (!parts.has(name)) parts.set(name, unpack(document.getElementById(name).textContent));
  return parts.get(name);
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** All runs, by the word they have in addresses. */
async function allRuns() {
  const found = new Map();
  for (let n = 0; document.getElementById(`run-${n}`); n += 1) {
    const run = await part(`run-${n}`);
    found.set(run.slug, run);
  }
  return found;
}

const places = new Map();
let shown = location.hash;

async function route() {
  places.set(shown, window.scrollY);
  shown = location.hash;
  const [page, slug, id, ...rest] = decodeURIComponent(shown.slice(1)).split("/");
  const [front, cell] = [document.getElementById("front"), document.getElementById("cell")];
  const wanted = page === "cell" && slug && id;
  if (wanted) {
    const here = shown;
    const runs = await allRuns();
    const built = await cellPage(runs, slug, id);
    if (shown !== here) return;
    cell.replaceChildren(built);
  }
  front.hidden = Boolean(wanted);
  cell.hidden = !wanted;
  document.body.dataset.page = wanted ? `${slug}/${id}` : "front";
  const aim = wanted && rest.length && document.getElementById(`case/${id}/${rest.join("/")}`);
  if (aim) {
    aim.open = true;
    aim.scrollIntoView();
  } else {
    window.scrollTo(0, places.get(shown) || 0);
  }
  if (wanted) (aim || cell).focus({ preventScroll: true });
}

function filterRows(choice) {
  for (const row of document.querySelectorAll("tr[data-row]")) {
    const words = [...row.querySelectorAll("[data-verdict]")].map((each) => each.dataset.verdict);
    row.hidden = !{
      all: true,
      broken: words.includes("violated"),
      open: words.some((word) => word !== "holds"),
      differs: new Set(words).size > 1,
    }[choice];
  }
}

function begin() {
  const filter = document.getElementById("filter");
  filter.addEventListener("change", () => filterRows(filter.value));
  filterRows(filter.value);
  const strengths = document.getElementById("strengths");
  if (strengths) {
    const matrix = document.querySelector("table.matrix");
    const tell = () => matrix.classList.toggle("told", strengths.checked);
    strengths.addEventListener("change", tell);
    tell();
  }
  window.addEventListener("hashchange", route);
  route();
}

document.addEventListener("DOMContentLoaded", begin);
