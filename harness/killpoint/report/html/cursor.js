// The cursor in a diagram: the event under it, and how all processes and slots stood by then.

const WORDS = { stop: "stopped", hold: "held up", cut: "cut off", "half-open": "half open" };
const BACK = ["continue", "resume", "heal"];

/** The events that change whether a process lives, runs or is reached. */
function lives(play, name) {
  const lane = play.lanes.indexOf(name);
  const found = [];
  let gone = false;
  play.events.forEach(([, whose, kind, data], index) => {
    if (whose !== lane) return;
    const [word, type] = play.kinds[kind];
    const born = gone && type === "act"; // the next process of this name
    const turned = word === "fault" && (WORDS[data.fault] || BACK.includes(data.fault));
    if (type === "ended" || born || turned) found.push(index);
    gone = type === "ended" || (gone && !born);
  });
  return found;
}

function lifeAfter(play, index) {
  const [, , kind, data] = play.events[index];
  if (play.kinds[kind][1] === "ended") return "gone";
  return WORDS[data.fault] ? "away" : "alive";
}

function nearest({ rows, place, box }, event) {
  const y = event.clientY - box.querySelector("svg").getBoundingClientRect().top;
  let [low, high] = [0, rows.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (place.at.get(rows[middle]) + ROW / 2 < y) low = middle + 1;
    else high = middle;
  }
  return rows[low];
}

function point(view, index) {
  if (index === undefined || index === view.state.cursor) return;
  view.state.cursor = index;
  showCursor(view);
}

function pin(view, index) {
  if (index === undefined) return;
  view.state.pinned = true;
  view.state.cursor = index;
  showCursor(view);
  bring(view);
}

/** Scroll the lanes, not the page, to where the cursor is. */
function bring({ box, state, y }) {
  if (state.cursor < 0) return;
  const at = y(state.cursor);
  if (at < box.scrollTop + 3 * ROW || at > box.scrollTop + box.clientHeight - 4 * ROW) {
    box.scrollTop = at - box.clientHeight / 2;
  }
}

function onKey(view, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { rows, state } = view;
  const later = rows.findIndex((index) => index >= state.cursor);
  const here = later < 0 ? rows.length - 1 : later;
  const to = {
    ArrowDown: () => rows[Math.min(rows.length - 1, here + 1)],
    ArrowUp: () => rows[Math.max(0, here - 1)],
    PageDown: () => rows[Math.min(rows.length - 1, here + 15)],
    PageUp: () => rows[Math.max(0, here - 15)],
    Home: () => rows[0],
    End: () => rows[rows.length - 1],
    v: view.first,
    f: view.next,
  }[event.key];
  if (to) pin(view, to());
  else if (event.key === "a") view.all.click();
  else if (event.key === "Escape") state.pinned = false;
  else return;
  event.preventDefault();
}

function showCursor(view) {
  const { play, state, panel, bar, y } = view;
  const index = state.cursor;
  if (index < 0 || index >= play.events.length) return;
  bar.setAttribute("y", y(index) - ROW / 2);
  bar.classList.toggle("pinned", state.pinned);
  const [t, lane, kind, data] = play.events[index];
  panel.replaceChildren(
    make("h4", {}, `${play.lanes[lane]}: ${play.kinds[kind][0]}`),
    make("p", { class: "quiet" }, `${clock(t)}, event ${index + 1} of ${play.events.length}`,
      index === play.violation ? make("b", {}, " here the violation shows") : "",
      state.pinned ? " (pinned)" : ""),
    make("dl", {}, Object.entries(data).flatMap(
      ([key, value]) => [make("dt", {}, key), make("dd", {}, lined(value))])),
    make("h4", {}, "Everybody then"), everybody(play, index), ...flags(play, index));
}

/** A list has a line for each. */
function lined(value) {
  return Array.isArray(value) ? value.map(text).join("\n") : text(value);
}

/** Who was alive, and inside what, when this event happened. */
function everybody(play, index) {
  const t = play.events[index][0];
  const rows = play.lanes.filter((name) => name !== "director").map((name) => {
    const number = play.lanes.indexOf(name);
    const last = lives(play, name).filter((each) => each <= index).pop();
    const life = last === undefined ? "runs" : describe(play, last);
    const inside = play.spans.filter(([lane, begin, end]) => lane === number && begin <= index
      && (end < 0 || end > index)).pop();
    const doing = inside
      ? `in ${inside[3]} for ${lasting(t - play.events[inside[1]][0])}` : "";
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, life), make("td", {}, doing));
  });
  return make("table", { class: "then" }, rows);
}

function lasting(us) {
  return us >= 1e6 ? `${(us / 1e6).toFixed(2)} s` : `${(us / 1e3).toFixed(1)} ms`;
}

function describe(play, index) {
  const [, , kind, data] = play.events[index];
  if (play.kinds[kind][1] !== "ended") return WORDS[data.fault] || "runs";
  return data.signal ? `ended by signal ${data.signal}` : `ended, status ${data.code ?? 0}`;
}

const CASES = ["may be written", "may be read by all", "read by some", "read by all: may be written"];

/** The flags of the slots, by the stores up to this event. */
function flags(play, index) {
  if (!play.ring) {
    return [make("p", { class: "quiet" }, "This play recorded no stores to slot flags.")];
  }
  const slots = play.ring.flags.map((slot) => [...slot]);
  const stores = play.events.slice(0, index + 1).filter((each) => play.kinds[each[2]][0] === "store")
    .map((each) => each[3]).sort((one, two) => one.turn - two.turn);
  for (const { slot, flag, value } of stores) slots[slot][flag] = value;
  const last = stores[stores.length - 1];
  const head = make("tr", {}, ["slot", "written", ...play.ring.readers.map((name) => `read by ${name}`), ""]
    .map((word) => make("th", { scope: "col" }, word)));
  const rows = slots.map((slot, number) => make("tr", {}, make("th", { scope: "row" }, String(number)),
    slot.map((value, flag) => make("td", {
      class: last && last.slot === number && last.flag === flag ? "flag now" : "flag",
    }, value ? "■ 1" : "□ 0")), make("td", { class: "quiet" }, CASES[slotCase(slot) - 1])));
  return [make("h4", {}, "Slot flags then"),
    make("div", { class: "scroll" }, make("table", { class: "flags" }, head, rows))];
}

function slotCase([written, ...read]) {
  if (!written) return 1;
  const count = read.filter(Boolean).length;
  return count === 0 ? 2 : count < read.length ? 3 : 4;
}
